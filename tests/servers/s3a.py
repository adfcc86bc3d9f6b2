"""Hadoop's S3 file system for Spark, from Maven Central: PySpark as it is installed has none."""

from __future__ import annotations

from pathlib import Path

from tests.servers.server import Server, build, built, tool

HADOOP, SDK = "3.5.0", "2.35.4"
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sleeper-nb</groupId> <artifactId>s3a</artifactId> <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.hadoop</groupId> <artifactId>hadoop-aws</artifactId> <version>{HADOOP}</version>
      <exclusions>
        <exclusion><groupId>software.amazon.awssdk</groupId> <artifactId>bundle</artifactId></exclusion>
        <exclusion><groupId>org.wildfly.openssl</groupId> <artifactId>*</artifactId></exclusion>
      </exclusions>
    </dependency>
{{parts}}
  </dependencies>
</project>
"""
_OF_SDK = "<groupId>software.amazon.awssdk</groupId>"
_PARTS = ("s3-transfer-manager", "apache-client", "netty-nio-client", "sts")
_SPARK_HAS = ("netty-[bchrt]*.jar", "slf4j-*.jar", "httpclient-*.jar", "httpcore-*.jar", "commons-*.jar")


def s3a_jars() -> Path:
    """Return the folder of the jars; the test is skipped where they cannot be fetched."""
    maven = tool("mvn", "fetches Spark's S3 file system")
    with built(f"s3a-{HADOOP}-{SDK}") as (folder, done):
        if not done:
            part = f"<dependency>{_OF_SDK}<artifactId>{{}}</artifactId> <version>{SDK}</version></dependency>"
            (folder / "pom.xml").write_text(_POM.format(parts="\n".join(part.format(each) for each in _PARTS)))
            copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"]
            build([maven, "-q", "-B", "-f", folder / "pom.xml", *copy])
            for pattern in _SPARK_HAS:
                for path in (folder / "jars").glob(pattern):
                    path.unlink()
        return folder / "jars"


def s3a_settings(server: Server) -> dict[str, str]:
    """Return the settings of a Spark session whose S3 file system reads from a server."""
    own = {
        "endpoint": server.endpoint_url, "endpoint.region": server.region, "path.style.access": "true",
        "connection.ssl.enabled": "false", "access.key": server.access_key, "secret.key": server.secret_key,
        "attempts.maximum": "2",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "input.stream.type": "classic",
    }  # fmt: skip
    return {"spark.driver.extraClassPath": f"{s3a_jars()}/*"} | {
        f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()
    }
