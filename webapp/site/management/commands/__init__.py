"""Commands for the whole product.

Modules:
    load_demo: the demo, loaded by the services that people use.
    draw_states: the states of every noun as diagrams and tables.
"""
