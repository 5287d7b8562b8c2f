"""Addresses of accounts."""

from django.urls import path

from webapp.accounts import api, views
from webapp.accounts.views import profile, single_sign_on

page_urls = [
    path("login", views.login, name="login"),
    path("login/provider", single_sign_on.sign_in, name="provider-sign-in"),
    path("login/provider/return", single_sign_on.come_back, name="provider-return"),
    path("logout", views.logout, name="logout"),
    path("logout/provider", single_sign_on.sign_out, name="provider-sign-out"),
    path("settings", views.settings, name="settings"),
    path("settings/profile", profile.profile, name="profile"),
    path("settings/profile/unlink", profile.unlink, name="profile-unlink"),
    path("settings/sessions/end", profile.end_sessions, name="sessions-end"),
    path("settings/password", views.password, name="password"),
    path("settings/users", views.users, name="users"),
    path("settings/users/<str:username>", views.user, name="user"),
    path("settings/tokens", views.tokens, name="tokens"),
    path("settings/audit", views.audit, name="audit"),
    path("settings/tokens/<int:token_id>/revoke", views.revoke_token, name="token-revoke"),
]
api_urls = [
    path("profile", api.ProfileView.as_view()),
    path("sessions", api.SessionsView.as_view()),
    path("sessions/<int:session_id>", api.SessionView.as_view()),
    path("tokens", api.TokensView.as_view()),
    path("tokens/<int:token_id>", api.TokenView.as_view()),
    path("password", api.PasswordView.as_view()),
    path("users/<str:username>", api.UserView.as_view()),
    path("users/<str:username>/tokens", api.UserTokensView.as_view()),
    path("users", api.UsersView.as_view()),
    path("groups", api.GroupsView.as_view()),
    path("audit", api.AuditView.as_view(), name="api-audit"),
    path("audit.csv", api.AuditCsvView.as_view(), name="api-audit-csv"),
    path("audit.jsonl", api.AuditJsonlView.as_view(), name="api-audit-jsonl"),
]
