"""The OpenAPI document, made of the table of calls and the opcodes.

Source: CHOICES 1; OpenAPI 3.1.
"""
