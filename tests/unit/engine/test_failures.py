"""The first line of a failure of Spark or of the way to it names the cause."""

from __future__ import annotations

import grpc
import pytest
from grpc._channel import _InactiveRpcError, _RPCState
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from jobs.engine.failures import describe


def call_error(details: str) -> grpc.RpcError:
    return _InactiveRpcError(_RPCState((), (), (), grpc.StatusCode.UNAVAILABLE, details))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (call_error("failed to connect to all addresses"), "UNAVAILABLE: failed to connect to all addresses"),
        (call_error("Stream removed\nat io.netty"), "UNAVAILABLE: Stream removed"),
        (call_error(""), "UNAVAILABLE: no details"),
    ],
)
def test_a_failed_call_says_what_the_server_said(error: grpc.RpcError, said: str) -> None:
    assert describe(error) == f"Spark Connect: {said}"
    assert describe(SparkConnectGrpcException(message=str(error))) == f"Spark Connect: {said}"


def test_a_refusal_of_spark_is_its_first_line() -> None:
    error = SparkConnectGrpcException(message="[TABLE_OR_VIEW_NOT_FOUND] no x\n'Project [*]\n\nJVM stacktrace:\nat a.b")
    assert describe(error) == "[TABLE_OR_VIEW_NOT_FOUND] no x"


def test_any_other_error_is_its_first_paragraph() -> None:
    assert describe(ValueError("a\nb")) == "a\nb"
    assert describe(ValueError()) == "no message"
