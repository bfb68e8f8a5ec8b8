"""Who may call over HTTP: users, tokens, and their rights.

Source: DESIGN section 15; rapi.md section 2.
"""
