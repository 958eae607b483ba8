"""The pages of the browser app, one each: what it shows, in the order in which it is read."""
