"""WebShop: the official files that are there, and what reads the titles of products."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from creditlab.doctor.items import Item, Status, unknown
from creditlab.doctor.packages import install_command, script_command
from creditlab.doctor.probe import Answer

SMALL_SET: Mapping[str, str] = {
    "items_shuffle_1000.json": "1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib",
    "items_ins_v2_1000.json": "1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu",
    "items_human_ins.json": "14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O",
}
"""File to its id on Google Drive, where WebShop's authors keep the set of 1,000 products."""


def shop_items(said: Answer, extra: bool) -> list[Item]:
    """Official products and title nouns; `extra` says whether the extra `webshop` is complete."""
    if "shop" not in said.facts:
        return [unknown("Shop", "WebShop", "shop", said, Status.WARNING)]
    shop: Mapping[str, Any] = said.facts["shop"]
    return [_products(shop), _nouns(shop, extra)]


def _products(shop: Mapping[str, Any]) -> Item:
    if shop["files"]:
        first, *others = [Path(file) for file in shop["files"]]
        text = f"{first.name} with {' and '.join(file.name for file in others)} in {first.parent}; env.data=auto sells them"
        return Item("Shop", "WebShop", Status.OK, text, "", shop)
    if shop["expected"]:
        text = f"{shop['reason']}. The synthetic shop is open without"
        return Item("Shop", "WebShop", Status.WARNING, text, download_command(shop["root"]), shop)
    text = f"no official products in {shop['root']}; the synthetic shop is open without. env.data=auto needs them"
    return Item("Shop", "WebShop", Status.ABSENT, text, download_command(shop["root"]), shop)


def _nouns(shop: Mapping[str, Any], extra: bool) -> Item:
    facts = {"nouns": shop["nouns"]}
    if shop["nouns"] != "rules":
        return Item("Shop", "title nouns", Status.OK, f"read by {shop['nouns']}", "", facts)
    text = "read by rules; spaCy enables env.nouns=spacy, the original's way, which moves the reward of some purchases"
    return Item("Shop", "title nouns", Status.ABSENT, text, "" if extra else install_command("webshop"), facts)


def download_command(folder: str) -> str:
    """The command that stores the small official set in a folder."""
    place = shlex.quote(folder)
    files = [script_command("gdown", number, "-O", name) for name, number in SMALL_SET.items()]
    get = [shlex.join([sys.executable, "-m", "pip", "install", "gdown"]), f"mkdir -p {place}", f"cd {place}"]
    return " && ".join([*get, *files])
