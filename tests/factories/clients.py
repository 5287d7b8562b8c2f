"""Clients of pages and of REST in the tests' own process, signed in as somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.test import Client
from rest_framework.test import APIClient

from webapp.accounts.models import User
from webapp.core.principals import Principal

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


def a_client(who: AbstractBaseUser | Principal) -> Client:
    """A browser of somebody."""
    client = Client()
    client.force_login(_find_user(who))
    return client


def a_rest_client(who: AbstractBaseUser | Principal) -> APIClient:
    """A program of somebody."""
    client = APIClient()
    client.force_login(_find_user(who))
    return client


def read_page(client: Client, address: str) -> str:
    """The text of a page, however its template is broken into lines."""
    answer = client.get(address)
    assert answer.status_code == 200, f"{address}: {answer.status_code}"
    return " ".join(answer.content.decode().split())


def read_pages(client: APIClient, address: str) -> list[list[dict[str, Any]]]:
    """The results of a list of the REST API, page by page to its end."""
    pages = []
    while address:
        answer = client.get(address).json()
        pages.append(answer["results"])
        address = answer["next"]
    return pages


def _find_user(who: AbstractBaseUser | Principal) -> AbstractBaseUser:
    return User.objects.get(pk=who.user_id) if isinstance(who, Principal) else who
