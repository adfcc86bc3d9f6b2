"""What is shown: pictures, charts, previews and listings of versions."""
