"""Refusals as problem documents."""

from __future__ import annotations

import json

import pytest

from webapp.core import errors
from webapp.core.problems import problem_response

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.AppError)]


@pytest.mark.parametrize("error_class", CLASSES)
def test_every_refusal_has_the_members_of_a_problem(error_class: type[errors.AppError]) -> None:
    response = problem_response(error_class("It may not be.", code="why", errors={"name": ["Taken."]}, blocked_by=[1]))

    problem = json.loads(response.content)
    assert response["Content-Type"] == "application/problem+json"
    assert response.status_code == problem["status"] == error_class.status
    assert problem["title"] == error_class.title
    assert problem["detail"] == "It may not be."
    assert problem["code"] == "why"
    assert problem["type"] == "urn:tributary:why"
    assert problem["errors"] == {"name": ["Taken."]}
    assert problem["blocked_by"] == [1]


def test_refusals_of_the_moment_say_when_to_try_again() -> None:
    assert problem_response(errors.Unavailable("Later."))["Retry-After"]
    assert problem_response(errors.TooManyRequests("Later."))["Retry-After"]
    assert "WWW-Authenticate" in problem_response(errors.Unauthenticated("Who?"))
