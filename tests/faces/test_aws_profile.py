"""Keys come from a profile by its name, in each process that needs them; its secret is shown nowhere."""

from __future__ import annotations

import pickle
import traceback
from contextlib import closing
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import DynamoDB
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, StorageError
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import Storage, open_near, open_storage
from tests.servers.fixtures import use
from tests.servers.server import Server

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "double?"})
ROWS = [{"city": "rome", "fare": 1.0}, {"city": "bern", "fare": None}]
WRONG = "wrongsecretwrongsecret"


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def keep_in_profile(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, secret: str | None = None) -> None:
    """Keep a server's keys in the profile ``prod`` alone; the environment has wrong ones."""
    use(server, monkeypatch)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WRONG)
    keys = f"aws_access_key_id = {server.access_key}\naws_secret_access_key = {secret or server.secret_key}\n"
    (folder / "credentials").write_text(f"[prod]\n{keys}\n[spare]\n{keys}")
    (folder / "config").write_text(f"[profile prod]\nregion = {server.region}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))


def elsewhere(storage: Storage) -> Storage:
    """Return a storage as a task of Spark gets it."""
    return pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own


@pytest.mark.servers
def test_a_bucket_is_opened_with_the_keys_of_a_profile_and_not_with_those_of_the_environment(
    versitygw, tmp_path, monkeypatch
):
    keep_in_profile(versitygw, tmp_path, monkeypatch)
    address, server = f"s3://{versitygw.new_bucket()}/house", {"endpoint_url": versitygw.endpoint_url}
    with pytest.raises(StorageError, match="access keys"):
        open_storage(address, AwsTarget(**server)).write("a", b"1")
    storage = open_storage(address, AwsTarget(**server, profile="prod"))
    with storage.output("a") as stream:  # by Arrow's own client
        stream.write(b"1")
    assert open_near(f"{address}/", storage).read("a") == b"1"
    assert elsewhere(storage).read("a") == b"1"  # as a task of Spark on this machine gets it
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", versitygw.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", versitygw.secret_key)
    assert elsewhere(storage).read("a") == b"1"  # a machine without the profile has keys of its own


def test_a_notebook_and_the_file_of_settings_name_the_profile(moto, shell, sleeper, tmp_path, monkeypatch):
    keep_in_profile(moto, tmp_path, monkeypatch)
    house, instance = f"s3://{moto.new_bucket()}/house", moto.new_bucket()[-20:].strip("-")
    where = f"--instance {instance} --profile prod --endpoint-url {moto.endpoint_url} --region us-east-1"
    opened = shell.run_line_magic("sleeper", f"use {house} {where}")
    assert opened.session.warehouse.aws == {"profile": "prod", "endpoint_url": moto.endpoint_url, "region": "us-east-1"}
    session = opened.session
    session.create_table("trips", SCHEMA, ["m"]).ingest(ROWS)
    assert session.sql("SELECT count(*) AS n FROM trips", engine="duckdb").to_arrow()["n"].to_pylist() == [2]
    assert session.table("trips").scan(keys="rome").to_arrow()["fare"].to_pylist() == [1.0]
    shell.run_line_magic("sleeper", f"add-instance {instance}-b")
    listed = shell.run_line_magic("sleeper", "instances")  # opens the other with the same profile
    assert {each.name for each in listed} == {instance, f"{instance}-b"}
    code, out, _ = sleeper("use", house, *where.split())
    assert (code, f'profile = "prod", endpoint-url = "{moto.endpoint_url}"' in out or 'profile = "prod"' in out) == (
        0,
        True,
    )
    lines = f'warehouse = "{house}"\nprofile = "prod"\nendpoint-url = "{moto.endpoint_url}"\nregion = "us-east-1"\n'
    (tmp_path / "sleeper.toml").write_text(lines)
    code, out, _ = sleeper("use", house, *where.split())
    assert (code, "sleeper.toml" in out) == (0, False)
    assert "trips" in sleeper("tables", "--instance", instance)[1]


def test_a_profile_that_is_not_there_is_named_with_those_that_are(moto, shell, tmp_path, monkeypatch):
    keep_in_profile(moto, tmp_path, monkeypatch)
    with pytest.raises(InvalidInput) as error:
        sl.connect("s3://some-bucket/house", profile="prd")
    assert str(error.value).splitlines()[0] == "no AWS profile 'prd'"
    assert "prod, spare" in str(error.value)
    with pytest.raises(InvalidInput, match="not in a bucket"):
        shell.run_line_magic("sleeper", "use ./warehouse --profile prod")
    with pytest.raises(InvalidInput, match="must not contain a user name") as error:
        sl.connect("s3://some-bucket/house", endpoint_url=f"http://me:{WRONG}@127.0.0.1:9")
    assert WRONG not in str(error.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{WRONG}@127.0.0.1:9")  # as boto3 finds it
    with pytest.raises(InvalidInput, match="must not contain a user name") as error:
        sl.connect("s3://some-bucket/house", profile="prod")
    assert WRONG not in str(error.value)


def all_of(error, *more):
    """Return what a user sees of an error, its traceback included."""
    return "".join([*traceback.format_exception(error), repr(error), *more])


@pytest.mark.parametrize("end", ["\n", "\r\nX: y"])
@pytest.mark.parametrize("name", ["AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"])
def test_a_key_that_no_header_can_have_is_one_error_and_is_never_shown(name, end, moto, monkeypatch, caplog):
    use(moto, monkeypatch)
    monkeypatch.setenv(name, f"{WRONG}{end}")
    caplog.set_level("DEBUG", "sleeper_nb")
    house = {"region": "us-east-1", "endpoint_url": moto.endpoint_url}
    with pytest.raises(sl.StorageError, match="has a character") as error:
        sl.connect("s3://some-bucket/house", "i", **house)
    with pytest.raises(sl.StorageError, match="has a character") as other, closing(catalog_at(moto)) as catalog:
        catalog.tables()
    assert WRONG not in all_of(error.value, caplog.text) + all_of(other.value)
    assert "retrying" not in caplog.text
    assert len(error.value.message.splitlines()) == 1


def catalog_at(moto):
    return DynamoDBCatalog("some", AwsTarget("us-east-1", moto.endpoint_url), clock=ManualClock())


@pytest.mark.parametrize("process", [f"echo {WRONG}", f"echo '\"{WRONG}\"'", "echo '[]'", f"/nothing/{WRONG}"])
def test_a_process_that_prints_no_keys_is_named_by_its_profile(process, tmp_path, monkeypatch):
    keys = tmp_path / "config"
    keys.write_text(f"[profile proc]\nregion = us-east-1\ncredential_process = {process}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(keys))
    for work in (sl.connect, sl.deploy):
        with pytest.raises(sl.StorageError, match="the AWS profile 'proc' gives no keys that can be read") as error:
            work("s3://some-bucket/house", "i", profile="proc")
        assert WRONG not in all_of(error.value)
    checks = sl.doctor("s3://some-bucket/house", "i", profile="proc")
    assert "the AWS profile 'proc' gives no keys" in repr(checks)
    assert WRONG not in repr(checks)


ADDRESSES = (
    f"http://me:{WRONG}@h", f"http://me:{WRONG}\uff20h", f"http://h?{WRONG}", f"http://h#{WRONG}", f"http://h/{WRONG}",
    f"x://{WRONG}", f"http://h {WRONG}", f"http://h:{WRONG}",
)  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_of_a_server_with_more_than_its_host_is_refused_and_not_repeated(address, moto, monkeypatch, caplog):
    use(moto, monkeypatch)
    caplog.set_level("DEBUG", "sleeper_nb")
    shown = []
    for given in ({"endpoint_url": address}, {}):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(InvalidInput) as error:
            sl.connect("s3://some-bucket/house", "i", region="us-east-1", **given)
        shown.append(all_of(error.value))
    with pytest.raises(InvalidInput) as error:
        DynamoDB(AwsTarget("us-east-1", address), ManualClock()).call("ListTables")
    assert WRONG not in "".join([*shown, all_of(error.value), caplog.text])


WAREHOUSES = (
    "s3://AKIA:{}@bucket/h", "s3://AKIA:{}/x@bucket/h", "s3://a\uff20{}/h", "s3:/A:{}@b", "http://me:{}@bucket",
    "s3://AKIA:{}@b\0", "gs://A:{}/x@b",
)  # fmt: skip


@pytest.mark.parametrize("address", WAREHOUSES)
def test_an_address_of_a_warehouse_with_keys_is_refused_and_not_repeated(address, shell, sleeper):
    address = address.format(WRONG)
    for work in (sl.connect, sl.deploy, sl.doctor):
        with pytest.raises(InvalidInput, match="must not contain keys") as error:
            work(address, "i")
        assert WRONG not in all_of(error.value)
    with pytest.raises(InvalidInput, match="must not contain keys"):
        shell.run_line_magic("sleeper", f"use '{address}'")
    code, out, err = sleeper("tables", "--warehouse", address)
    assert (code, WRONG in out + err) == (1, False)


def test_a_sign_of_keys_may_be_in_a_prefix(moto, monkeypatch):
    use(moto, monkeypatch)
    address, where = f"s3://{moto.new_bucket()}/me@home/a:b", {"endpoint_url": moto.endpoint_url}
    open_storage(address, AwsTarget(**where)).write_new("x", b"1")
    assert open_storage(address, AwsTarget(**where)).read("x") == b"1"
