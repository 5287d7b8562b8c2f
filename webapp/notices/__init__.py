"""Notifications: what people are told of the facts that the apps below state, in their inbox and by mail.

Modules:
    models: notifications, mails, watches, and what people want to be told.
    rules: reasons, states, mentions and pauses, without a database.
    permissions: what of it somebody may still see.
    queries: what somebody may still see of what they were told, and what they want.
    services: who is told what, marks, mails, and following the apps below.
    pages: what each page shows.
    forms: fields of forms.
    serializers: shapes of the REST API.
    views: pages.
    api: REST endpoints.
    urls: addresses of all these.
    tasks: doorbells, each with an id for one service.
    templatetags: the watch button, for pages of other apps.
    apps: the app, for Django.
"""
