"""The only Postgres SQL: tables, unit of work, one repository per noun, embedded servers."""
