"""WebShop as an environment of creditlab: shopping by instruction, no download, no Java, no web server."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from creditlab.environments.announced import Announced
from creditlab.environments.panels import freeze_panel
from creditlab.environments.protocol import Environment, Panel, Task
from creditlab.environments.webshop.catalogue import Catalogue, find_data, load_catalogue, read_catalogue
from creditlab.environments.webshop.episode import Reading, WebShopEpisode
from creditlab.environments.webshop.expert import Expert, slip
from creditlab.environments.webshop.goals import server_goals, split
from creditlab.environments.webshop.index import Index, build_index, stemmer_installed
from creditlab.environments.webshop.nouns import Nouns, find_nouns, spacy_installed
from creditlab.environments.webshop.records import Goal
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Shop
from creditlab.environments.webshop.synthetic import LEAST_BREADTH, MOST_PRODUCTS, synthetic_records
from creditlab.environments.webshop.views import Tracker
from creditlab.environments.webshop.vocabulary import phrases, texts
from creditlab.environments.webshop.wordlists import KINDS
from creditlab.limits import user_path

_CACHE = "~/.cache/creditlab/webshop"


@dataclass(frozen=True)
class WebShop(Environment):
    """Shopping by instruction in a text shop (WebShop): search, open a product, choose its options, buy.

    Without `data` the shop sells a seeded synthetic catalogue. Nothing is read, generated or indexed before the first use.
    """

    axis: ClassVar[str] = "env"
    name: ClassVar[str] = "webshop"
    provides: ClassVar[tuple[str, ...]] = ("rubric",)
    views: ClassVar[tuple[str, ...]] = ("observation", "graph", "exact", "coarse")
    operational: ClassVar[tuple[str, ...]] = ("cache",)

    data: str | None = None
    """The catalogue: null for the synthetic one, a folder with the three official JSON files, or `auto` for the folder
    $WEBSHOP_DATA."""
    limit: int | None = None
    """Number of products read from the start of the official file; null for all."""
    products: int = 1000
    """Number of products of the synthetic catalogue."""
    kinds: int | None = None
    """Number of product kinds of the synthetic catalogue; null for all that there are."""
    breadth: int | None = None
    """Attributes per kind and values per option of the synthetic catalogue; null for all that there are."""
    instructions: int = 4
    """Human instructions per product of the synthetic catalogue."""
    goals: Literal["human", "synthetic"] = "human"
    """Whose instructions: `human` ones, or `synthetic` ones, one per product and combination of its options."""
    held_out: int = 500
    """Goals kept for evaluation, the first in the server's order (500 in the published experiments); of a small shop at most
    half of all goals."""
    seed: int = 0
    """Seed of the synthetic catalogue, of prices that are drawn between two, and of the price bounds."""
    horizon: int = 15
    """Largest number of decisions in an episode."""
    observation_mode: Literal["text", "text_rich"] = "text"
    """How pages read: `text` joins their parts by [SEP]; `text_rich` puts each on a line and marks what can be clicked and
    what has been."""
    show_attributes: bool = False
    """Whether product pages link to the product's attributes."""
    page_size: int = 10
    """Products on a page of results."""
    stemming: bool = False
    """Whether the search reduces words to their stems, as the original's index does (Porter; needs the extra `webshop`)."""
    nouns: Literal["auto", "spacy", "rules"] = "auto"
    """What finds the nouns of titles, on which the type reward rests: `spacy` (extra `webshop`), `rules`, or `auto` for spaCy
    where it is installed."""
    quoted: bool = True
    """Whether each part of a page stands in single quotes, as in the field's prompts."""
    hide_clicks: tuple[str, ...] = ()
    """Labels, in lower case, that are not listed to the policy; they can be clicked all the same."""
    frontier_excludes_satisfied: bool = True
    """Whether the frontier F leaves out criteria that hold in full; otherwise it holds every enabled one."""
    cache: str | None = None
    """Folder of search indices and of large catalogues; null is `~/.cache/creditlab/webshop`."""

    def __post_init__(self) -> None:
        for key in ("horizon", "products", "kinds", "instructions", "limit", "held_out", "page_size"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ValueError(f"env.{key} must be at least 1, not {value}")
        if self.limit is not None and self.limit > sys.maxsize:
            raise ValueError(f"env.limit must be at most {sys.maxsize}, not {self.limit}")
        if self.seed < 0:
            raise ValueError(f"env.seed must not be negative, not {self.seed}")
        if self.data is not None and not self.data.strip():
            raise ValueError("env.data is empty; give a folder or auto, or leave it out for the synthetic catalogue")
        if self.data is None and self.limit is not None:
            raise ValueError("env.limit counts the products of env.data; the synthetic catalogue takes env.products")
        if self.data is None:
            self._check_synthetic()
        if loud := [label for label in self.hide_clicks if label != label.lower()]:
            raise ValueError(f"env.hide_clicks takes labels in lower case, not {loud[0]!r}")
        if self.nouns == "spacy" and not spacy_installed():
            raise ValueError("env.nouns=spacy needs the spaCy model: pip install 'creditlab[webshop]'")
        if self.stemming and not stemmer_installed():
            raise ValueError("env.stemming=true needs PyStemmer: pip install 'creditlab[webshop]'")

    def _check_synthetic(self) -> None:
        kinds = self.kinds or len(KINDS)
        if kinds > len(KINDS):
            raise ValueError(f"env.kinds must be at most {len(KINDS)}, not {self.kinds}")
        if self.products > MOST_PRODUCTS:
            raise ValueError(f"env.products must be at most {MOST_PRODUCTS}, not {self.products}")
        if self.products < kinds:
            raise ValueError(
                f"env.products={self.products} is fewer than the {kinds} product kinds; raise it, or lower env.kinds"
            )
        if self.breadth is not None and self.breadth < LEAST_BREADTH:
            raise ValueError(f"env.breadth must be at least {LEAST_BREADTH}, not {self.breadth}")

    @property
    def role(self) -> str:
        """One sentence that tells the policy who it is."""
        return "You are a careful shopper in a web shop that you use by searching and clicking, one action at a time."

    @property
    def phrases(self) -> tuple[str, ...]:
        """Fixed phrases of the texts, in lower case."""
        return phrases(self._catalogue, rich=self.observation_mode == "text_rich")

    def train_tasks(self) -> Sequence[Task]:
        """The training tasks, in the server's order."""
        return self._splits[0]

    def panel(self, episodes: int, seed: int) -> Panel:
        """A frozen list of evaluation episodes: as many different goals as there are, then again with other seeds.

        Raises ValueError for fewer than one episode.
        """
        return freeze_panel(self.name, self._splits[1], self._digest, episodes, seed)

    def episode(self, task: Task) -> WebShopEpisode:
        """A new episode of a task; `start` begins it."""
        goal: Goal = task.payload
        tracker = Tracker(goal, frontier_excludes_satisfied=self.frontier_excludes_satisfied)
        reading = Reading(self.observation_mode, self.quoted, frozenset(self.hide_clicks))
        return WebShopEpisode(task, goal, self._shop, tracker, reading)

    def expert(self, task: Task, rng: np.random.Generator) -> EpisodeExpert:
        """A policy that buys what a goal asks for."""
        return EpisodeExpert(Expert(self._shop, task.payload))

    def slip(self, episode: WebShopEpisode, rng: np.random.Generator) -> str:
        """An action that reads well but has no effect now: of the kinds that a careless policy gives."""
        return slip(episode.session, rng)

    def vocabulary(self) -> Iterable[str]:
        """Texts that together hold every word of the pages, actions and instructions."""
        return texts(self._catalogue, self._goals)

    def describe(self) -> dict[str, Any]:
        """Facts for the run's manifest: where products and goals come from, how many, their hashes, and what tags nouns."""
        training, evaluation = self._splits
        return {
            "environment": self.name,
            "source": self._catalogue.source,
            "catalogue_hash": self._catalogue.digest,
            "products": len(self._catalogue),
            "skipped": dict(self._catalogue.skipped),
            "goals": self.goals,
            "seed": self.seed,
            "train_goals": len(training),
            "eval_goals": len(evaluation),
            "repeated_goals": len(self._goals) - len(training) - len(evaluation),
            "title_nouns": self._nouns.name,
            "stemming": self.stemming,
            "observation_mode": self.observation_mode,
            "show_attributes": self.show_attributes,
            "page_size": self.page_size,
            "horizon": self.horizon,
        }

    @cached_property
    def _catalogue(self) -> Catalogue:
        if self.data is None:
            records = synthetic_records(
                self.products, self.seed, kinds=self.kinds, breadth=self.breadth, instructions=self.instructions
            )
            return read_catalogue(*records, source="synthetic")
        try:
            progress = Announced("reading the products")
            return load_catalogue(find_data(self.data), self.limit, cache=self._folder, progress=progress)
        except ValueError as error:
            told = str(error)
            raise ValueError(told if told.startswith("env.") else f"env.data: {told}") from None

    @property
    def _folder(self) -> Path:
        return user_path("env.cache", self.cache or _CACHE)

    @cached_property
    def _served(self) -> tuple[tuple[Goal, ...], dict[str, float]]:
        return server_goals(self._catalogue, self.goals, self.seed)

    @property
    def _goals(self) -> tuple[Goal, ...]:
        return self._served[0]

    @cached_property
    def _nouns(self) -> Nouns:
        return find_nouns(self.nouns)

    @cached_property
    def _index(self) -> Index:
        cache = None if self.data is None else self._folder
        catalogue = self._catalogue
        return build_index(catalogue.products, stemming=self.stemming, cache=cache, digest=catalogue.digest)

    @cached_property
    def _shop(self) -> Shop:
        return Shop(
            self._catalogue,
            self._served[1],
            self._index.search,
            Scorer(self._nouns),
            self.page_size,
            self.show_attributes,
        )

    @cached_property
    def _splits(self) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
        """Training and evaluation tasks, which never overlap; a task is named by its number in the server's order."""
        training, evaluation = split(self._goals, self.held_out)
        if not training or not evaluation:
            raise ValueError(
                f"{self._catalogue.source} has {len(self._goals)} {self.goals} goals, too few for training and evaluation, "
                "since those that ask for what a held-out one does are left away; take more products, or the other env.goals"
            )
        return tuple(map(self._task, training)), tuple(map(self._task, evaluation))

    def _task(self, number: int) -> Task:
        goal = self._goals[number]
        return Task(f"{self.goals}-{number}", goal.category, goal.instruction, payload=goal)

    def _digest(self, task: Task) -> str:
        """What decides the worth of a purchase and what a search finds: the goal, all that is sold, and how it is read."""
        facts = (asdict(task.payload), self._catalogue.digest, self._prices_digest, self.stemming, self._nouns.name)
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @cached_property
    def _prices_digest(self) -> str:
        return hashlib.sha256(json.dumps(self._served[1]).encode()).hexdigest()


class EpisodeExpert:
    """The shop's expert behind the interface of an environment."""

    def __init__(self, expert: Expert) -> None:
        self._expert = expert

    def act(self, episode: WebShopEpisode) -> str:
        """The next action in the episode's present state."""
        return self._expert.act(episode.session)
