"""The pages that show something: what each asks luxid, and the view that is made of it."""
