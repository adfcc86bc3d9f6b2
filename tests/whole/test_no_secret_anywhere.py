"""A secret key is planted in every way of giving credentials, and looked for in everything that anybody may see."""

from __future__ import annotations

import base64
import pickle
import urllib.parse

import pytest

import sleeper_nb as sl
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.jvm import JvmPlan, find_java
from sleeper_nb.engines.spark.spark_settings import logged_settings
from sleeper_nb.storage.aws import AwsTarget
from tests.faces.saved_notebook import saved
from tests.servers.fixtures import use

IN_PROFILE, IN_ENVIRONMENT, IN_TOKEN = "pr0f1le+secret/planted", "env1ronment+secret/planted", "t0ken+secret/planted"
SECRETS = (IN_PROFILE, IN_ENVIRONMENT, IN_TOKEN)
FORMS = tuple(
    form.encode()
    for secret in SECRETS
    for form in (secret, urllib.parse.quote(secret, safe=""), base64.b64encode(secret.encode()).decode())
)


def shown_in(content: bytes) -> list[bytes]:
    return [form for form in FORMS if form in content]


@pytest.fixture
def planted(moto, tmp_path, monkeypatch):
    """Keys in a profile and in the environment; moto takes any. Returns the folder of the profiles."""
    use(moto, monkeypatch)
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "credentials").write_text(f"[prod]\naws_access_key_id = a\naws_secret_access_key = {IN_PROFILE}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys / "credentials"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", IN_ENVIRONMENT)
    monkeypatch.setenv("AWS_SESSION_TOKEN", IN_TOKEN)
    return keys


def everything_of(session: sl.Session) -> list[object]:
    """Return what a curious user may look at in a debugger."""
    place = session.warehouse._storage.place
    table = session.table("trips")
    warehouse = session.warehouse
    parts = [session, vars(session), session._components, warehouse, warehouse.aws, place, vars(place), place.access]
    parts += [table, table.entry, table._store, table.scan().plan()]
    parts += [vars(place.connection).keys(), session._components.catalog]
    parts += [session.doctor(), session.doctor().to_dict(), session.doctor()._repr_html_(), table.inspect.status()]
    parts += [table.history(), table.history()[0].to_dict()]
    return parts


@pytest.mark.parametrize("profile", ["prod", None])
def test_no_value_error_log_or_object_has_a_secret(profile, planted, moto, caplog):
    caplog.set_level("DEBUG", "sleeper_nb")
    bucket, instance = moto.new_bucket(), moto.new_bucket()[-12:]
    aws = {"region": "us-east-1", "endpoint_url": moto.endpoint_url, "profile": profile}
    seen = [sl.deploy(f"s3://{bucket}/house", instance, **aws, dry_run=False)]
    with sl.connect(f"s3://{bucket}/house", instance, **aws) as session:
        session.create_table("trips", sl.Schema({"city": "string"}), ["m"]).ingest([{"city": "rome"}, {"city": "bern"}])
        session.table("trips").create_savepoint("kept", message="x")
        result = session.sql("SELECT count(*) FROM trips", engine="duckdb")
        seen += [result, *everything_of(session), session.warehouse._storage.place.access]
        connection = session.warehouse._storage.place
        sent = [pickle.dumps(session.warehouse._storage), pickle.dumps(connection)]
        duck = session.table("trips").scan().to_duckdb()
        seen.append(duck.explain())
        text = "\n".join(f"{each!r}\n{each}" for each in seen)
    with pytest.raises(sl.StorageError) as error:
        sl.connect(f"s3://{bucket}-gone/house", instance, **aws).create_table("x", sl.Schema({"k": "string"}))
    seen = [error.value, error.value.__cause__, str(error.getrepr())]
    sent.append(pickle.dumps(InstancePlace("s3://b/p", "i", AwsTarget(profile=profile))))
    text += "\n".join(f"{each!r}\n{each}" for each in seen) + caplog.text
    assert shown_in(text.encode()) == []
    assert shown_in(b"".join(sent)) == []
    client = moto.client("s3")
    for found in client.list_objects_v2(Bucket=bucket)["Contents"]:
        assert shown_in(client.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()) == []
    for name in moto.client("dynamodb").list_tables()["TableNames"]:
        if instance in name:
            assert shown_in(repr(moto.client("dynamodb").scan(TableName=name)).encode()) == []


def test_a_secret_that_a_user_wrote_into_the_settings_of_spark_is_not_repeated():
    for name in (
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.my.password",
        "spark.aToken",
    ):
        plan = JvmPlan(find_java(), (), "", {name: IN_PROFILE})
        text = f"{logged_settings({name: IN_PROFILE})}{plan!r}"
        assert shown_in(text.encode()) == []


@pytest.mark.spark
@pytest.mark.processes
def test_no_saved_notebook_event_log_spark_log_or_setting_of_spark_has_a_secret(planted, moto, tmp_path, monkeypatch):
    work, bucket = tmp_path / "work", moto.new_bucket()
    (work / "events").mkdir(parents=True)
    monkeypatch.setenv("SLEEPER_CACHE", str(work / "cache"))
    monkeypatch.setenv("SLEEPER_LOG", "debug")
    name = bucket[-12:]
    where = f"s3://{bucket}/house --region us-east-1 --endpoint-url {moto.endpoint_url}"
    events = (work / "events").as_uri()
    settings = f'[spark]\nmaster = "local[2]"\neventLog.enabled = true\neventLog.dir = "{events}"\n'
    settings = f'warehouse = "s3://{bucket}/house"\n{settings}'
    (work / "sleeper.toml").write_text(settings)
    outputs = saved(
        work,
        "%load_ext sleeper_nb",
        f"%sleeper use {where} --instance {name}-a --profile prod",
        "%%sleeper create trips --splits m\ncity STRING KEY",
        "rows = [{'city': 'rome'}, {'city': 'bern'}]\n%sleeper ingest trips $rows",
        "%sleeper sql --engine spark SELECT count(*) AS n FROM trips",
        "%sleeper doctor --cluster",
        f"%sleeper use {where} --instance {name}-b",
        "%%sleeper create trips --splits m\ncity STRING KEY",
        "%sleeper ingest trips $rows",
        "%sleeper sql --engine spark SELECT count(*) AS n FROM trips",
        "%sleeper sql --engine spark SELECT nothing FROM trips",
        f"%sleeper use s3://{bucket}-gone/house --endpoint-url {moto.endpoint_url}",
        "%sleeper why",
        LOOK,
    )
    errors = [output for cell in outputs for output in cell if output["output_type"] == "error"]
    assert [error["ename"] for error in errors] == ["InvalidInput", "StorageError"], errors
    assert "spark.eventLog.enabled" in outputs[-1][0]["text"]
    files = [path for path in work.rglob("*") if path.is_file()]
    assert any("events" in path.parts and path.stat().st_size for path in files)
    assert {path: shown_in(path.read_bytes()) for path in files if shown_in(path.read_bytes())} == {}


LOOK = """\
from pyspark.sql import SparkSession
context = SparkSession.getActiveSession().sparkContext
print(context.getConf().getAll())
settings = context._jsc.hadoopConfiguration()
entries = settings.iterator()
while entries.hasNext():
    name, _, value = entries.next().toString().partition("=")
    if not any("Set by Spark" in each for each in settings.getPropertySources(name) or ()):
        print(name, value)
"""
"""Print the settings. Spark itself copies keys of its environment into those of Hadoop; its log hides them."""
