"""Servers for tests: moto from PyPI, and real ones (versitygw, DynamoDB Local) built or fetched once and cached."""
