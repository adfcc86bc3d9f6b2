"""What makes tables, names them, empties them and deletes them."""
