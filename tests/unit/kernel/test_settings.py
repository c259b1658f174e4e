"""Settings: environment over file over default, each with its source, typos refused."""

import pytest

from canopy.domain.errors import SettingError
from canopy.settings import load_settings


def test_defaults_need_nothing(tmp_path):
    loaded = load_settings(environment={"CANOPY_HOME": str(tmp_path)})
    assert loaded.settings.database_url is None
    assert loaded.sources["http_port"] == "default"
    assert loaded.sources["home"] == "environment"


def test_the_environment_wins_over_the_file(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("http_port: 8001\npointer_poll_s: 2\n")
    loaded = load_settings(config, environment={"CANOPY_HTTP_PORT": "9001"})
    assert loaded.settings.http_port == 9001
    assert loaded.settings.pointer_poll_s == 2
    assert loaded.sources["http_port"] == "environment"
    assert loaded.sources["pointer_poll_s"] == str(config)


def test_the_home_folder_brings_its_own_config(tmp_path):
    (tmp_path / "config.yaml").write_text("http_port: 8002\n")
    assert load_settings(environment={"CANOPY_HOME": str(tmp_path)}).settings.http_port == 8002


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("http_prot: 1\n", "http_prot.*Known settings"),
        ("http_port: many\n", "http_port"),
        ("- a\n- b\n", "mapping"),
        ("a: [1\n", "not YAML"),
    ],
)
def test_a_wrong_file_is_refused_naming_the_key(tmp_path, text, match):
    config = tmp_path / "config.yaml"
    config.write_text(text)
    with pytest.raises(SettingError, match=match):
        load_settings(config, environment={})


def test_a_named_file_must_exist(tmp_path):
    with pytest.raises(SettingError, match="no such file"):
        load_settings(tmp_path / "absent.yaml", environment={})


def test_a_wrong_variable_is_named(tmp_path):
    with pytest.raises(SettingError, match="CANOPY_HTTP_PORT"):
        load_settings(environment={"CANOPY_HOME": str(tmp_path), "CANOPY_HTTP_PORT": "x"})
