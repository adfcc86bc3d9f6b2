"""The doctor answers in any state of a machine, with a line that mends each thing, and never shows a key."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from datetime import UTC, datetime, timedelta

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from tests.servers.fixtures import use
from tests.servers.server import free_port


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLEEPER_WAREHOUSE", raising=False)
    return tmp_path


def by_name(report):
    return {each.name: each for each in report.checks}


def test_on_a_laptop_all_is_well_and_nothing_is_made(cell, folder):
    report = cell("%sleeper doctor")
    assert report.ok
    assert {each.name for each in report.checks} >= {"Python", "packages", "Java", "Spark", "warehouse", "credentials"}
    assert "%sleeper doctor --cluster" in repr(report)
    assert not (folder / "warehouse").exists()
    assert report.to_dict()["ok"]
    assert "<table" in report._repr_html_()
    assert by_name(report)["warehouse"].state == "warning"
    assert "no warehouse at" in repr(report)
    assert "%sleeper use" in repr(report)
    cell("%sleeper use ./warehouse")
    assert "instance default" in by_name(cell("%sleeper doctor"))["warehouse"].found


def test_it_looks_at_another_instance_of_the_open_warehouse(cell, folder):
    sl.connect(folder / "warehouse", "prod").close()
    cell("%sleeper use ./warehouse --new")
    assert "instance prod" in by_name(cell("%sleeper doctor --instance prod"))["warehouse"].found
    says = by_name(cell("%sleeper doctor --instance nope"))["warehouse"]
    assert (says.state, says.found) == ("warning", f"no instance 'nope' in {folder / 'warehouse'}")
    assert "instance default" in by_name(cell("%sleeper doctor --instance default"))["warehouse"].found
    cell("%sleeper use ./warehouse --instance prod")
    assert "instance prod" in by_name(cell("%sleeper doctor"))["warehouse"].found


def test_a_session_is_not_another_instance(cell, folder, shell):
    session = sl.connect(folder / "warehouse", "prod")
    shell.push({"mine": session})
    with pytest.raises(sl.InvalidInput, match="is a session of instance 'prod', not of 'other'"):
        cell("%sleeper use $mine --instance other")
    assert cell("%sleeper use $mine --instance prod").instance == "prod"


def test_a_mistyped_warehouse_or_instance_is_a_warning(sleeper, folder):
    sl.connect(folder / "ware house", "prod").close()

    def checked(*words):
        checks = json.loads(sleeper("doctor", *words, "--json")[1])["checks"]
        return next((each["state"], each["found"], each["fix"]) for each in checks if each["name"] == "warehouse")

    state, says, mend = checked("nosuch")
    assert (state, says) == ("warning", f"no warehouse at {folder / 'nosuch'}")
    assert mend == f"sleeper use {folder / 'nosuch'} creates one"
    for words in (("--warehouse", "nosuch"), ("nosuch", "--warehouse", "ware house")):
        assert checked(*words)[1] == f"no warehouse at {folder / 'nosuch'}"
    assert checked("--warehouse", "ware house", "--instance", "prod")[0] == "ok"
    state, says, mend = checked("ware house", "--instance", "foo")
    assert (state, says) == ("warning", f"no instance 'foo' in {folder / 'ware house'}")
    assert mend == f"instances there: prod; sleeper use '{folder / 'ware house'}' --instance foo creates one"
    assert not (folder / "nosuch").exists()


def test_without_java_it_says_what_works_and_how_to_get_one(sleeper, folder, monkeypatch):
    def none(_):
        return iter(())

    monkeypatch.setattr("sleeper_nb.engines.spark.jvm._candidates", none)
    code, out, _ = sleeper("doctor", "--json")
    checks = {each["name"]: each for each in json.loads(out)["checks"]}
    assert (code, checks["Java"]["state"]) == (0, "warning")
    assert "sleeper-nb[spark]" in checks["Java"]["fix"]


def test_without_a_network_it_answers_and_the_console_ends_with_one(sleeper, folder, moto, monkeypatch):
    use(moto, monkeypatch)
    nowhere = f"http://127.0.0.1:{free_port()}"
    words = ("doctor", "s3://some-bucket/house", "--endpoint-url", nowhere, "--region", "us-east-1")
    code, out, err = sleeper(*words, "--json")
    report = json.loads(out)
    states = {each["name"]: each["state"] for each in report["checks"]}
    assert (code, report["ok"], states["S3"], states["DynamoDB"]) == (1, False, "failed", "failed")
    assert states["credentials"] == "ok"
    assert "check the network" in next(each["fix"] for each in report["checks"] if each["name"] == "S3")
    assert moto.secret_key not in out + err
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    states = {each["name"]: each["state"] for each in json.loads(sleeper(*words, "--json")[1])["checks"]}
    assert states["credentials"] == "failed"
    code, out, _ = sleeper(*words, "--profile", "prd")
    assert (code, "no AWS profile 'prd'" in out) == (1, True)


def test_on_aws_each_server_the_clock_and_the_permissions_have_a_line(moto, monkeypatch):
    use(moto, monkeypatch)
    bucket = moto.new_bucket()
    where = {"region": "us-east-1", "endpoint_url": moto.endpoint_url}
    instance = bucket[-12:]
    found = by_name(sl.doctor(f"s3://{bucket}/house", instance, **where))
    assert (found["S3"].state, found["clock"].state, found["DynamoDB"].state) == ("ok", "ok", "warning")
    given = f"--region us-east-1 --endpoint-url {moto.endpoint_url}"
    assert f"add-instance s3://{bucket}/house --instance {instance} {given} --deploy" in repr(found["DynamoDB"].fix)
    assert "docs/aws-roles.md" in repr(found["permissions"].fix)
    sl.deploy(f"s3://{bucket}/house", instance, **where, dry_run=False)
    with sl.connect(f"s3://{bucket}/house", instance, **where) as session:
        assert by_name(session.doctor())["DynamoDB"].state == "ok"
    late = ManualClock(datetime.now(UTC) + timedelta(minutes=6))
    found = by_name(sl.doctor(f"s3://{bucket}/house", instance, **where, clock=late))
    assert (found["clock"].state, "set-ntp" in repr(found["clock"].fix)) == ("failed", True)
    gone = by_name(sl.doctor(f"s3://{bucket}-gone/house", instance, **where))
    assert (gone["S3"].state, "no bucket" in gone["S3"].found) == ("failed", True)


@pytest.mark.servers
def test_real_servers_of_s3_and_dynamodb_at_two_addresses(versitygw, dynamodb_local, monkeypatch):
    use(versitygw, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", versitygw.endpoint_url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_local.endpoint_url)
    name = uuid.uuid4().hex[:12]
    warehouse = f"s3://new-{name}/house"
    assert {step.state for step in sl.deploy(warehouse, name).steps} == {"to make"}
    assert {step.state for step in sl.deploy(warehouse, name, dry_run=False).steps} == {"made"}
    assert {step.state for step in sl.deploy(warehouse, name, dry_run=False).steps} == {"exists"}
    with sl.connect(warehouse, name) as session:
        session.create_table("trips", sl.Schema({"city": "string"})).ingest([{"city": "rome"}])
        assert session.doctor().ok
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    found = by_name(sl.doctor(warehouse, name))["S3"]
    assert (found.state, "does not accept the access keys" in found.found) == ("failed", True)


def test_keys_that_cannot_be_had_are_one_line_without_them_and_the_others_follow(moto, monkeypatch):
    from botocore.exceptions import HTTPClientError

    use(moto, monkeypatch)

    class Keys:
        method = "assume-role"

        def get_frozen_credentials(self):
            raise HTTPClientError(error=ValueError("Invalid header value b'tok-SECRET'"))

    monkeypatch.setattr("sleeper_nb.storage.aws.AwsTarget.keys", lambda *_: Keys())
    report = sl.doctor(f"s3://{moto.new_bucket()}/house", "prod", region="us-east-1", endpoint_url=moto.endpoint_url)
    found = by_name(report)
    assert (found["credentials"].state, "SECRET" in repr(report)) == ("failed", False)
    assert {"S3", "DynamoDB", "permissions"} <= found.keys()


def test_a_folder_that_may_only_be_read_is_a_warning(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert by_name(sl.doctor("warehouse"))["warehouse"].state == "warning"


def test_a_session_of_spark_connect_is_refused_in_one_line(folder):
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(sl.EngineError) as error:
        sl.connect(folder / "warehouse", spark=remote)
    assert str(error.value).startswith("a Spark Connect session cannot be used here")
    found = by_name(sl.doctor(folder / "warehouse", spark=remote))["Spark"]
    assert (found.state, "DuckDB" in repr(found.fix)) == ("failed", True)


@pytest.mark.spark
def test_a_session_that_was_set_up_by_others_keeps_its_settings(folder, spark_engine, monkeypatch):
    spark = spark_engine.session()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    mine = {"fs.s3a.endpoint": "http://mine:9000", "fs.s3a.aws.credentials.provider": "com.example.Mine"}
    for name, value in mine.items():
        hadoop.set(name, value)
    spark.range(1).count()  # Spark completes its own settings with its first work
    before = dict(spark.sparkContext.getConf().getAll())
    try:
        with sl.connect(folder / "warehouse", spark=spark) as session:
            session.create_table("trips", sl.Schema({"city": "string"})).ingest([{"city": "rome"}])
            assert session.sql("SELECT city FROM trips", engine="spark").to_arrow().num_rows == 1
            session.doctor()
        assert {name: hadoop.get(name) for name in mine} == mine
        assert dict(spark.sparkContext.getConf().getAll()) == before
    finally:
        for name in mine:
            hadoop.unset(name)


@pytest.mark.spark
def test_workers_are_looked_at_by_a_task(folder, spark_engine):
    with sl.connect(folder / "warehouse", spark=spark_engine.session()) as session:
        found = by_name(session.doctor(cluster=True))
        assert {name: found[name].state for name in found if name.startswith("workers")} == dict.fromkeys(
            ("workers", "workers' Python", "workers' packages", "workers' clocks", "workers' files"), "ok"
        )
        assert "local[2]" in found["Spark"].found
        shutil.rmtree(folder / "warehouse")
        assert by_name(session.doctor(cluster=True))["workers' files"].state == "failed"
