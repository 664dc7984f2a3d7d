"""WebShop the original's way: every page is rendered as HTML and parsed back, once for its buttons and once for its text.

What can be clicked and what is shown is read off the parsed page alone, the page one is on off its address. Templates, rules
and texts are written for this file; `creditlab.environments.webshop.session` must agree with it on every page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PreformattedString, Tag
from jinja2 import Environment, Template

from creditlab.environments.webshop.records import Goal, Product
from creditlab.environments.webshop.session import Shop

_ACTION = re.compile(r"(.+)\[(.+)\]")
_HEAD = """<!DOCTYPE html>
<html>
<head>
<title>WebShop</title>
<link rel="stylesheet" href="/static/shop.css">
<script src="/static/shop.js"></script>
</head>
<body>
<div class="container">
"""
_TAIL = """
</div>
</body>
</html>
"""
_TOP = """<div id="instruction"><h4>Instruction:<br>{{ instruction }}</h4></div>
<form method="post" action="/{{ keywords }}"><button type="submit" class="btn">Back to Search</button></form>
"""
_BEHIND_ITEM = f"""{_TOP}
<form method="post" action="/{{{{ asin }}}}"><button type="submit" class="btn">&lt; Prev</button></form>
"""
_PAGES = {
    "index": """<h2>WebShop</h2>
<div id="instruction"><h4>Instruction: <br>{{ instruction }}</h4></div>
<form method="post" action="/">
<input id="search_input" type="text" name="query" placeholder="Search" required>
<button type="submit" class="btn"><i class="icon"></i>Search</button>
</form>""",
    "search_results": f"""{_TOP}
<h3>Page {{{{ page }}}} (Total results: {{{{ total }}}})</h3>
{{% if page > 1 %}}
<form method="post" action="/{{{{ page - 1 }}}}"><button type="submit" class="btn">&lt; Prev</button></form>
{{% endif %}}
<form method="post" action="/{{{{ page + 1 }}}}"><button type="submit" class="btn">Next &gt;</button></form>
{{% for product in products %}}
<div class="row">
<img src="/static/{{{{ product.asin }}}}.jpg">
<h4 class="asin"><a class="product-link" href="/{{{{ product.asin }}}}">{{{{ product.asin }}}}</a></h4>
<h4 class="title">{{{{ product.name }}}}</h4>
<h5 class="price">{{{{ product.price_tag }}}}</h5>
</div>
{{% endfor %}}""",
    "item_page": f"""{_BEHIND_ITEM}
<img src="/static/{{{{ asin }}}}.jpg">
{{% for name, values in product.options.items() %}}
<div class="row">
<h4>{{{{ name }}}}</h4>
<div class="radio">
{{% for value in values %}}
<input type="radio" id="{{{{ name }}}}{{{{ loop.index0 }}}}" name="{{{{ name }}}}" value="{{{{ value }}}}">
<label for="{{{{ name }}}}{{{{ loop.index0 }}}}">{{{{ value }}}}</label>
{{% endfor %}}
</div>
</div>
{{% endfor %}}
<h2>{{{{ product.name }}}}</h2>
<h4>Price: {{{{ product.price_tag }}}}</h4>
<h4>Rating: N.A.</h4>
{{% for label in labels %}}
<form method="post" action="/{{{{ asin }}}}/{{{{ label }}}}"><button type="submit" class="btn">{{{{ label }}}}</button></form>
{{% endfor %}}""",
    "description": f"""{_BEHIND_ITEM}
<div class="card"><p class="info">{{{{ product.description }}}}</p></div>""",
    "features": f"""{_BEHIND_ITEM}
<ul>
{{% for bullet in product.bullets %}}
<li><p class="info"> {{{{ bullet }}}}</p></li>
{{% endfor %}}
</ul>""",
    "reviews": f"""{_BEHIND_ITEM}
<div class="card">
</div>""",
    "attributes": f"""{_BEHIND_ITEM}
<ul>
{{% for attribute in product.attributes %}}
<li><p class="info"> {{{{ attribute }}}}</p></li>
{{% endfor %}}
</ul>
<h5>{{{{ product.category }}}}</h5>
<h5>{{{{ product.query }}}}</h5>
<h5>{{{{ product.product_category }}}}</h5>""",
    "done": """<h1>Thank you for shopping with us!</h1>
<h3>Your code: </h3>
<p><pre>None</pre> (Paste it in your MTurk interface.)</p>
<h2>Purchased</h2>
<h4>asin<pre>{{ asin }}</pre></h4>
<h4>options<pre>{{ options | tojson }}</pre></h4>
<h4>attrs<pre>None</pre></h4>
<h4>category<pre>None</pre></h4>
<h4>query<pre>None</pre></h4>
<h4>product category<pre>None</pre></h4>
<h2>Target</h2>
{% for name in ("asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query") %}
<h4>{{ name }}<pre></pre></h4>
{% endfor %}
<h4>Goal <div><pre>None</pre></div></h4>
<h2>Reward</h2>
<h3>Your score (min 0.0, max 1.0)<pre>{{ reward }}</pre></h3>
<h4>Reward Details <div><pre>None</pre></div></h4>""",
}
_SUB_PAGES = ("description", "features", "reviews", "attributes")
_JINJA = Environment(autoescape=True)
_UNSEEN = {"style", "script", "head", "title", "meta", "[document]"}


class HtmlSession:
    """One visit; `compiled` keeps the compiled templates, which the original does not."""

    def __init__(self, shop: Shop, goal: Goal, *, compiled: bool = False) -> None:
        self.shop = shop
        self.goal = goal
        self._template = _compiled if compiled else _compile
        self.reset()

    def reset(self) -> str:
        """Begins on the search page; its text."""
        self.done = False
        self._leave()
        return self.text()

    def step(self, action: str) -> tuple[str, float, bool]:
        """Text of the next page, reward and whether something has been bought."""
        if self.done:
            return self.text(), 0.0, True
        clickables = self._elements()
        reward = 0.0
        match = _ACTION.match(action)
        if match is not None:
            name, argument = match[1], match[2].lower()
            if name == "search":
                self._search(argument, 1)
            elif name == "click" and argument in clickables and argument != "search":
                reward = self._click(argument, clickables[argument])
        return self.text(), reward, self.done

    @property
    def clickables(self) -> list[str]:
        """What can be clicked, read off the page."""
        return list(self._elements())

    @property
    def has_search_bar(self) -> bool:
        """Whether the page has a search bar."""
        return BeautifulSoup(self.html, "html.parser").find(id="search_input") is not None

    def text(self) -> str:
        """The visible texts of the page in text mode."""
        return " [SEP] ".join(text.strip() for text in self._texts())

    def rich(self) -> str:
        """The page in text_rich mode."""
        chosen, shown = "", ""
        for text in self._texts():
            parent = text.parent
            assert parent is not None
            if parent.name == "button":
                line = f"[button] {text} [button_]"
            elif parent.name == "label":
                line = f"  [button] {text} [button_]"
                if f'"{text}"' in self.url:
                    line = f"  [clicked button] {text} [clicked button_]"
                    chosen = f"You have clicked {text}.\n{chosen}"
            elif parent.get("class") == ["product-link"]:
                mark = "clicked button" if str(text) in self.visited else "button"
                line = f"\n[{mark}] {text} [{mark}_]"
            else:
                line = str(text)
            shown += f"{line}\n"
        return chosen + shown

    def _elements(self) -> dict[str, Tag]:
        page = BeautifulSoup(self.html, "html.parser")
        found = {tag.get_text().lower(): tag for tag in (*page.find_all(class_="btn"), *page.find_all(class_="product-link"))}
        return found | {str(tag["value"]): tag for tag in page.select('input[type="radio"]')}

    def _texts(self) -> Iterator[NavigableString]:
        for text in BeautifulSoup(self.html, "html.parser").find_all(string=True):
            unseen = text.parent is None or text.parent.name in _UNSEEN or isinstance(text, PreformattedString)
            if not unseen and text != "\n":
                yield text

    def _leave(self) -> None:
        self.keywords, self.page, self.asin, self.options, self.visited = "", 0, "", dict[str, str](), set[str]()
        self._show("index", "")

    def _search(self, keywords: str, page: int) -> None:
        self.keywords, self.page, self.asin, self.options = keywords, page, "", {}
        found = self.shop.search(keywords)
        size = self.shop.page_size
        products = [self.shop.catalogue.get(asin) for asin in found[(page - 1) * size : page * size]]
        self._show("search_results", str(page), products=products, total=len(found))

    def _click(self, label: str, element: Tag) -> float:
        names = ("search_results", "item_page", "item_sub_page")
        place = next((name for name in names if name in self.url), "")
        if label == "buy now":
            return self._buy()
        if label == "back to search":
            self._leave()
        elif label == "next >" and place == "search_results":
            self._search(self.keywords, self.page + 1)
        elif label == "< prev" and place == "search_results":
            self._search(self.keywords, self.page - 1)
        elif label == "< prev" and place == "item_page":
            self._search(self.keywords, self.page)
        elif label in _SUB_PAGES:
            self._show(label, f"{self.asin}/{self.page}/{label}/{self.options}", product=self._product())
        else:
            self._choose(label, element)
        return 0.0

    def _choose(self, label: str, element: Tag) -> None:
        if element.get("class") == ["product-link"]:
            self.asin = label.upper()
            self.visited.add(self.asin)
        elif element.get("name") is not None:
            self.options[str(element["name"])] = label
        labels = ["Description", "Features", "Reviews", *(["Attributes"] if self.shop.show_attributes else []), "Buy Now"]
        address = f"{self.asin}/{self.page}/{json.dumps(self.options)}"
        self._show("item_page", address, product=self._product(), labels=labels)

    def _buy(self) -> float:
        reward = self.shop.score(self._product(), self.goal, self.options, self.shop.prices[self.asin]).reward
        self.done = True
        self._show("done", self.asin, options=self.options, reward=reward)
        return reward

    def _product(self) -> Product:
        return self.shop.catalogue.get(self.asin)

    def _show(self, name: str, address: str, **values: Any) -> None:
        keywords = "+".join(self.keywords.split(" "))
        place = "item_sub_page" if name in _SUB_PAGES else name
        self.url = f"/{place}/{keywords}/{address}"
        values |= {"instruction": self.goal.instruction, "keywords": self.keywords, "page": self.page, "asin": self.asin}
        self.html = self._template(name).render(values)


def _compile(name: str) -> Template:
    return _JINJA.from_string(f"{_HEAD}{_PAGES[name]}{_TAIL}")


_compiled = cache(_compile)
