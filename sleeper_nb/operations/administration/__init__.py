"""Administration of tables and instances: what they are told, and how they come and go."""
