"""The OpenAPI document, made of the table of calls and the opcodes.

Source: OpenAPI 3.1.
"""
