import pytest

pytestmark = pytest.mark.integration


def test_a_fresh_database_is_at_the_revision(database):
    assert database.revision() == "0003"
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() == 0
