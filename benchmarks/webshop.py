"""How fast one shops: `python benchmarks/webshop.py [--episodes 40] [--products 100000]`.

First table: steps per second of a session beside a shop that renders every page as HTML and parses it back twice, for what
can be clicked and for the text, as the original does (`benchmarks/plain_webshop.py`). Both play the same actions on the same
catalogue, with the same search, whose answers are kept, and the same scorer; nothing is printed unless every page, reward and
list of clickables is equal. The original compiles a page's template each time; a row without that stands beside it. Ours is
measured with the pages of the products visited already made, with every page made anew, and within an environment, where the
views of the methods and the score of buying now are made at every step as well.

Second table: a search index over a large synthetic catalogue: how long it takes to make, what it occupies, and how long new
queries take. Times are those of this process on its processor.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from plain_webshop import HtmlSession
from rich.console import Console
from rich.table import Table
from timing import best

from creditlab.environments.protocol import Task
from creditlab.environments.webshop.catalogue import Catalogue, read_catalogue
from creditlab.environments.webshop.environment import WebShop
from creditlab.environments.webshop.expert import Expert, slip
from creditlab.environments.webshop.goals import human_goals, server_goals
from creditlab.environments.webshop.index import Index, build_index
from creditlab.environments.webshop.nouns import find_nouns
from creditlab.environments.webshop.records import Goal
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Session, Shop
from creditlab.environments.webshop.synthetic import synthetic_records

LIMIT = 15
"""Longest episode, in actions."""
SHOP = 1000
"""Products of the shop that is played in."""
QUERIES = 500
MEBIBYTE = 2**20


class Episode(NamedTuple):
    """A goal and the actions that are played for it."""

    goal: Goal
    actions: tuple[str, ...]


class Search(NamedTuple):
    """An index and what it took to make it."""

    index: Index
    seconds: float
    resident: float
    """Bytes that the process holds more than before."""


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=7, help="of our sessions; the shortest time counts")
    parser.add_argument("--products", type=int, default=100_000, help="of the catalogue that is indexed")
    options = parser.parse_args()
    console = Console(width=100)
    console.print(steps_table(options.episodes, options.repeats))
    console.print(search_table(options.products))


def steps_table(count: int, repeats: int) -> Table:
    """Plays the episodes every way."""
    environment = WebShop(products=SHOP)
    tasks = environment.train_tasks()[:count]
    shop = make_shop(SHOP)
    episodes = [Episode(task.payload, shopping(shop, task.payload, seed)) for seed, task in enumerate(tasks)]
    for episode in episodes:
        compare(shop, episode)
    steps = sum(len(episode.actions) for episode in episodes)
    table = Table("pages", "steps/s", "ms per step", "times as fast", title=f"{count} episodes, {steps:,} steps")
    slow = seconds(lambda: play_html(shop, episodes, compiled=False))

    def row(name: str, took: float) -> None:
        table.add_row(name, f"{steps / took:,.0f}", f"{took / steps * 1000:.3f}", f"{slow / took:,.1f}×")

    row("HTML, templates compiled each time", slow)
    row("HTML, templates compiled once", seconds(lambda: play_html(shop, episodes, compiled=True)))
    table.add_section()
    row("records", seconds(lambda: play(shop, episodes), repeats))
    row("records, every page made anew", min(seconds(fresh_play(shop, episodes)) for _ in range(repeats)))
    in_environment = list(zip(tasks, episodes, strict=True))
    row("records, with state views", seconds(lambda: play_environment(environment, in_environment), repeats))
    return table


def search_table(products: int) -> Table:
    """Makes the large catalogue and its index, and searches with words of its instructions."""
    catalogue = make_catalogue(products)
    queries = [" ".join(goal.instruction.split()[:8]) for goal in some_goals(catalogue, QUERIES)]
    search = make_index(catalogue)
    times = [seconds(lambda query=query: search.index.scored(query)) * 1000 for query in queries]
    table = Table("index", "", title=f"searching {products:,} synthetic products")
    table.add_row("made in", f"{search.seconds:.1f} s")
    table.add_row("memory of the index", f"{search.resident / MEBIBYTE:,.0f} MiB")
    table.add_row("memory of the process at most, records included", f"{peak() / MEBIBYTE:,.0f} MiB")
    table.add_row(f"a new query, median of {len(queries)}", f"{np.median(times):.2f} ms")
    table.add_row("a new query, 95th percentile", f"{np.percentile(times, 95):.2f} ms")
    table.add_row("a query asked before", f"{seconds(lambda: search.index.search(queries[0]), 1000) * 1000:.4f} ms")
    return table


def make_catalogue(products: int) -> Catalogue:
    """Synthetic products, as a run without data sells them."""
    return read_catalogue(*synthetic_records(products, seed=0), source="synthetic")


def make_shop(products: int) -> Shop:
    """A shop of synthetic products."""
    catalogue = make_catalogue(products)
    _, prices = server_goals(catalogue, "human", seed=0)
    return Shop(catalogue, prices, build_index(catalogue.products).search, Scorer(find_nouns("rules")))


def shopping(shop: Shop, goal: Goal, seed: int) -> tuple[str, ...]:
    """What a shopper does who now and then looks around or says something without effect."""
    rng, session, expert = np.random.default_rng(seed), Session(shop, goal), Expert(shop, goal)
    actions: list[str] = []
    while not session.done and len(actions) < LIMIT:
        mood = rng.random()
        looks = [label for label in session.page.clickables if label != "buy now"]
        if mood < 0.1:
            action = slip(session, rng)
        elif mood < 0.5:
            action = f"click[{looks[int(rng.integers(len(looks)))]}]"
        else:
            action = expert.act(session)
        actions.append(action)
        session.step(action)
    return tuple(actions)


def compare(shop: Shop, episode: Episode) -> None:
    """Raises AssertionError where the two ways differ."""
    session, html = Session(shop, episode.goal), HtmlSession(shop, episode.goal, compiled=True)
    assert session.reset().text == html.reset()
    for action in episode.actions:
        outcome = session.step(action)
        assert (outcome.page.text, outcome.reward, outcome.done) == html.step(action), action
        assert list(outcome.page.clickables) == html.clickables, action


def play(shop: Shop, episodes: Sequence[Episode]) -> None:
    """Sessions as they are."""
    for goal, actions in episodes:
        session = Session(shop, goal)
        for action in actions:
            session.step(action)


def fresh_play(shop: Shop, episodes: Sequence[Episode]) -> Callable[[], None]:
    """Sessions in a shop that has made no page yet; its search and its scorer are the same."""
    fresh = replace(shop)
    return lambda: play(fresh, episodes)


def play_html(shop: Shop, episodes: Sequence[Episode], *, compiled: bool) -> None:
    """Sessions by way of HTML."""
    for goal, actions in episodes:
        session = HtmlSession(shop, goal, compiled=compiled)
        for action in actions:
            session.step(action)


def play_environment(environment: WebShop, episodes: Sequence[tuple[Task, Episode]]) -> None:
    """Episodes as a run plays them."""
    for task, (_, actions) in episodes:
        episode = environment.episode(task)
        episode.start()
        for action in actions:
            episode.step(action)


def make_index(catalogue: Catalogue) -> Search:
    """Builds the index of a catalogue."""
    before, start = resident(), time.process_time()
    index = build_index(catalogue.products)
    return Search(index, time.process_time() - start, resident() - before)


def some_goals(catalogue: Catalogue, count: int) -> tuple[Goal, ...]:
    """Human goals of products all over the catalogue."""
    step = max(1, len(catalogue) // count)
    sample = replace(catalogue, products=catalogue.products[::step])
    prices = {product.asin: product.pricing[0] for product in sample.products}
    return human_goals(sample, prices, random.Random(0))[:count]


def resident() -> int:
    """Bytes that this process holds in memory now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """Most bytes that this process has held in memory (Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def seconds(call: Callable[[], object], repeats: int = 1) -> float:
    """How long one call keeps the processor busy, the shortest of the repeats."""
    return best(call, repeats, time.process_time)


if __name__ == "__main__":
    main()
