"""The stream of events: one subscription of luxid and wconfd, and any number of readers.

Source: DESIGN section 15.
"""
