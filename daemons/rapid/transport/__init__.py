"""HTTP below the handlers: routes, bodies, replies and refusals of each face."""
