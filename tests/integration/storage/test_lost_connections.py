"""A database that is not there, or goes away within a unit of work, is told apart from a fault."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from canopy.domain.errors import ServiceUnreachableError
from canopy.storage.database import Database

pytestmark = pytest.mark.integration


def nowhere(database, folder):
    return make_conninfo(database.app_dsn, host=str(folder))


def test_a_database_that_is_not_there_is_unreachable(database, tmp_path):
    with Database(nowhere(database, tmp_path)) as absent:
        with pytest.raises(ServiceUnreachableError, match="try again"), absent.unit_of_work("acme"):
            pass
        with pytest.raises(ServiceUnreachableError, match="try again"):
            absent.find_permit("0" * 64)
        with pytest.raises(ServiceUnreachableError, match="canopy doctor"):
            absent.revision()


def test_a_connection_lost_within_a_unit_of_work_is_unreachable(database, fresh_database):
    def work_while_it_is_ended():
        with database.unit_of_work("acme") as work:
            connection = work.decisions._connection
            own = connection.execute(text("select pg_backend_pid()")).scalar_one()
            with psycopg.connect(fresh_database.admin, autocommit=True) as admin:
                admin.execute("select pg_terminate_backend(%s, 5000)", (own,))
            connection.execute(text("select 1"))

    with pytest.raises(ServiceUnreachableError, match="Nothing was kept"):
        work_while_it_is_ended()
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() == 0


def test_what_the_server_refuses_for_its_own_reasons_is_no_lost_connection(database):
    def work_too_long():
        with database.unit_of_work("acme") as work:
            connection = work.decisions._connection
            connection.execute(text("set local statement_timeout = '10ms'"))
            connection.execute(text("select pg_sleep(5)"))

    with pytest.raises(OperationalError, match="timeout"):
        work_too_long()
