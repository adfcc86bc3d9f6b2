"""Each server answers, on this machine only, and is gone when its fixture ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers.server import announced_port, running


def test_moto_keeps_objects_and_items(moto):
    moto.client("s3").create_bucket(Bucket="servers-moto")
    assert "servers-moto" in {bucket["Name"] for bucket in moto.client("s3").list_buckets()["Buckets"]}
    assert isinstance(moto.client("dynamodb").list_tables()["TableNames"], list)


@pytest.mark.servers
def test_versitygw_keeps_objects(versitygw):
    versitygw.client("s3").create_bucket(Bucket="servers-versity")
    assert "servers-versity" in {bucket["Name"] for bucket in versitygw.client("s3").list_buckets()["Buckets"]}


@pytest.mark.servers
def test_dynamodb_local_keeps_items(dynamodb_local):
    client = dynamodb_local.client("dynamodb")
    client.create_table(
        TableName="numbers",
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.put_item(TableName="numbers", Item={"key": {"S": "a"}, "n": {"N": "1"}})
    assert client.get_item(TableName="numbers", Key={"key": {"S": "a"}})["Item"]["n"] == {"N": "1"}


def test_a_server_ends_with_its_block():
    script = "import sys; print(7, flush=True); sys.stdin.read()"
    with running([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert announced_port(process) == 7
    assert process.returncode is not None
