"""What somebody is told, what they watch, and where they want to be told.

Modules:
    inbox: notifications that somebody may see.
    people: who is to be told of a fact.
    wishes: what somebody watches, and where they want to be told what.
"""
