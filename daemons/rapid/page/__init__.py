"""The web page under /ui: the server draws, htmx swaps what changed, and without a script everything can be read.

Theory. A page is drawn from a *view*: a frozen class with the texts and links that stand on it, made by a pure function
from what luxid tells. Templates only place these texts. While a page is open, its one event stream draws the same view
again when something has changed, and sends the parts that differ. So no state of a page is anywhere but in its URL.

Source: DESIGN section 15.
"""
