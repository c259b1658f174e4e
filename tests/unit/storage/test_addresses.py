from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from canopy.domain.errors import ServiceUnreachableError, SettingError
from canopy.settings import Settings
from canopy.storage.cli import _without_password
from canopy.storage.embedded.paths import (
    Account,
    closed_parent,
    path_key,
    private_folder,
    wheel_folder,
)
from canopy.storage.servers import Endpoints, _sqlalchemy_url, application_dsn, given_database


def test_the_embedded_application_logs_in_as_the_plain_role():
    address = application_dsn(Settings(), Endpoints("host=/s user=postgres dbname=canopy", ""))
    assert conninfo_to_dict(address) == {"host": "/s", "user": "canopy_app", "dbname": "canopy"}


@pytest.mark.parametrize("given", ["", "?options=-c%20statement_timeout%3D5s"])
def test_a_named_database_takes_the_plain_role_and_keeps_its_options(given):
    settings = Settings(database_url=f"postgresql://me:pw@db:5433/prod{given}")
    facts = conninfo_to_dict(application_dsn(settings, Endpoints(given_database(settings), "")))
    assert facts["options"].endswith("-c role=canopy_app")
    assert ("statement_timeout" in facts["options"]) == bool(given)
    assert (facts["user"], facts["host"], facts["port"]) == ("me", "db", "5433")


def test_an_sqlalchemy_address_is_understood():
    settings = Settings(database_url="postgresql+psycopg://me@db/prod")
    assert conninfo_to_dict(given_database(settings))["dbname"] == "prod"


@pytest.mark.parametrize("address", ["mysql://db/prod", "nonsense", "postgresql://db/x?no=such"])
def test_a_malformed_address_is_refused_with_an_example(address):
    with pytest.raises(SettingError, match="postgresql://user@host"):
        given_database(Settings(database_url=address))


def test_an_sqlalchemy_address_is_made_for_sockets_and_for_networks():
    made = _sqlalchemy_url({"host": "/a b/s", "user": "u", "dbname": "d"})
    assert made == "postgresql+psycopg://u@/d?host=%2Fa+b%2Fs"
    made = _sqlalchemy_url({"host": "h", "port": "1", "user": "u", "password": "p@", "dbname": "d"})
    assert made == "postgresql+psycopg://u:p%40@h:1/d"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("host=/s user=postgres dbname=canopy", "host=/s user=postgres dbname=canopy"),
        ("host=h password=secret user=u", "host=h password=*** user=u"),
        ("postgresql://u:secret@h/d", "postgresql://u:***@h/d"),
        ("redis://:secret@h:1/0", "redis://:***@h:1/0"),
        ("redis://h:1/0", "redis://h:1/0"),
        ("unix:///tmp/redis.sock", "unix:///tmp/redis.sock"),
    ],
)
def test_no_password_is_shown(address, shown):
    assert _without_password(address) == shown


def test_a_missing_wheel_names_the_extra_and_the_setting():
    with pytest.raises(ServiceUnreachableError, match=r"CANOPY_X_URL.*\[embedded\]"):
        wheel_folder("no_such_package_here", "X", "CANOPY_X_URL")


def test_the_first_closed_folder_on_the_way_is_found(tmp_path):
    outer = tmp_path / "outer"
    (outer / "inner").mkdir(parents=True)
    outer.chmod(0o700)
    # Folders above may be closed too, pytest's own among them.
    assert closed_parent(outer / "inner" / "x") in {outer, *outer.parents}
    assert closed_parent(Path("/")) is None


def test_a_folder_open_to_others_is_not_taken_for_private(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(ServiceUnreachableError, match="open to others"):
        private_folder(tmp_path / "open", Account(None, None))


def test_a_link_is_not_taken_for_a_private_folder(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ServiceUnreachableError):
        private_folder(tmp_path / "link", Account(None, None))


def test_a_path_and_a_link_to_it_have_one_key(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert path_key(tmp_path / "link") == path_key(tmp_path / "real")
