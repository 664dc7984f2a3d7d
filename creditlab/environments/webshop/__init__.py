"""WebShop: shopping by instruction in a text shop, with the pages, rules and reward of the original."""
