"""What every app stands on; it knows no noun.

Modules:
    states: what the states of a noun are, and which may follow which.
    moves: the column that holds a state, and the one way in which it changes.
    serializers: how a noun becomes JSON.
    filters: what a list is filtered by.
    inputs: what a request's body holds.
    choices: what a picker lists of many names.
    forms: how forms are drawn.
    keys: foreign keys over columns that are there anyway.
    models: answers kept for repeated requests.
    principals: who is asking, as a value.
    names: names of branches and datasets.
    ids: public ids of things that are not counted.
    numbers: whole numbers in addresses and properties.
    moments: moments as people and programs write them.
    words: small pieces of English.
    errors: the errors that services raise.
    failures: what a failure of a part below means for the one who asked.
    problems: errors as problem+json.
    ports: what an app asks of those above it.
    http: middleware: refusals for programs and people.
    pages: a page, or the part that htmx asked for.
    numbered: numbered pages of long lists.
    pagination: pages of the REST API, by cursors.
    turning: pages that hold their place while others insert and delete.
    preconditions: ETag, If-Match and If-None-Match.
    lazy_lists: lists whose items are made for those who look at them.
    api: base of the REST API's endpoints.
    openapi: what all endpoints share in the API's description.
    urls: addresses of the API's own documents.
    views: those documents.
    idempotency: the same answer to a repeated POST, and the work done once.
    basic_auth: user name and secret of a request.
    uploads: files that are sent.
    outgoing: requests to addresses that users chose.
    json_bytes: JSON of megabytes, fast.
    json_bodies: JSON bodies of REST requests, parsed strictly.
    json_members: JSON of which little changes, written from the older text.
    byte_cache: what was used lately, bounded by its bytes.
    change_counter: whether anybody has committed anything since.
    once: questions that a request asks once.
    budgets: the time that a page can spend on decoration.
    helpers: functions over hostile text, in processes that end at a deadline.
    sessions: Django's sessions, which end after a time and at an age.
    later: what a request notes and another thread writes.
    prepared: query sets whose SQL is made once.
    databases: locks, and patience with a busy database.
    sealed: texts that are kept encrypted.
    clock: the only place that reads the time.
    processes: names of processes that say whether they still live.
    characters: characters that readers cannot see or tell apart, and how pages draw them.
    drawn_pages: the middleware that draws them on every page.
    drawn_values: values of data as HTML.
    value_diffs: what differs inside one value.
    sequences: differences between two lists of words or lines.
    undo: messages that offer to take back what was done.
    checking: whether the database itself is whole.
    fsck: the checks that apps register for `manage.py fsck`.
    apps: the app, for Django.
    templatetags: what templates share.
    management: commands of `manage.py`.
"""
