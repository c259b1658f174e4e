"""What alembic runs around every migration: one connection, handed in, one transaction."""

from alembic import context

from canopy.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
