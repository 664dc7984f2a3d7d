"""What a household holds: object types, where each may lie, and what can be done with it.

The table is this project's own. A place is a receptacle type with an optional weight (`CounterTop:4`; 1 without one).
"""

from __future__ import annotations

from dataclasses import dataclass


def weights(words: str) -> dict[str, float]:
    """Reads a table entry such as `Desk:4 Shelf`."""
    pairs = (word.partition(":") for word in words.split())
    return {name: float(weight or 1) for name, _, weight in pairs}


@dataclass(frozen=True, slots=True)
class Thing:
    """An object type: where it may lie, with the weight of finding it there at first (0: fits, but is never found there)."""

    homes: dict[str, float]
    traits: frozenset[str]
    copies: tuple[int, ...] = (1, 2, 3)
    """Numbers of instances in one scene, equally likely."""


_TRAITS = {"c": "cleanable", "h": "heatable", "k": "coolable", "s": "sliceable", "r": "isReceptacleObject", "t": "toggleable"}


def _thing(homes: str, traits: str = "", copies: tuple[int, ...] = (1, 2, 3), *, fixed: bool = False) -> Thing:
    kinds = {_TRAITS[letter] for letter in traits} | (set() if fixed else {"pickupable"})
    return Thing(weights(homes), frozenset(kinds), copies)


_FOOD = "CounterTop:4 Fridge:4 DiningTable:2 SinkBasin GarbageCan:1.5 SideTable"
_CUTLERY = "CounterTop:5 Drawer:3 DiningTable:3 SinkBasin SideTable"
_SPICE = "CounterTop:4 Cabinet:4 Drawer:2 DiningTable:2 Shelf SideTable"
_SMALL = "Drawer:4 Desk:3 SideTable:3 Shelf:3 Dresser:2 DiningTable:2 CoffeeTable:4 Sofa:3 ArmChair:2 TVStand CounterTop"
_WRITING = "Desk:5 Drawer:3 SideTable:3 Shelf:3 Dresser:2 DiningTable:2 CoffeeTable:2 GarbageCan:0.8 CounterTop TVStand"
_DECOR = "CoffeeTable:3 DiningTable:3 Shelf:3 SideTable:3 Dresser:2 TVStand Desk CounterTop:2 Safe:0"
_BATH = "CounterTop:4 Toilet:3 Cabinet:2 Shelf:2 GarbageCan SideTable Cart Dresser:0.5"

THINGS: dict[str, Thing] = {
    # bathrooms
    "Candle": _thing(
        "CounterTop:4 Toilet:4 Cabinet:2 Drawer:2 Shelf:2 SideTable Cart Dresser DiningTable CoffeeTable TVStand",
    ),
    "ToiletPaper": _thing(
        "CounterTop:3 Toilet:3 ToiletPaperHanger:1.5 Drawer:2 Cabinet:2 GarbageCan Shelf Dresser Cart SideTable",
        copies=(2, 2, 3),
    ),
    "Cloth": _thing(
        "BathtubBasin:4 CounterTop:2 Cabinet:3 Drawer:2 SinkBasin Shelf Toilet:0.5 Cart Desk:0 "
        "Dresser:0 GarbageCan:0 SideTable:0 LaundryHamper:0",
        "c",
    ),
    "SprayBottle": _thing(_BATH + " Drawer:0 DiningTable"),
    "SoapBottle": _thing(
        "CounterTop:4 Toilet:3 Cabinet:3 Shelf:2 GarbageCan Drawer:0.4 DiningTable:2 SideTable Cart Dresser:0.5",
    ),
    "SoapBar": _thing(
        "CounterTop:3 Toilet:2 SinkBasin:2 Cabinet:2 BathtubBasin:2 Drawer:2 GarbageCan Shelf Cart SideTable:0",
        "c",
    ),
    "HandTowel": _thing(
        "HandTowelHolder:9 CounterTop:0.4 Toilet:0 Cabinet:0 Drawer:0 GarbageCan:0 Shelf:0 Cart:0 "
        "SinkBasin:0 BathtubBasin:0 SideTable:0",
        copies=(1, 1, 1, 1, 2),
    ),
    "Towel": _thing("TowelHolder", copies=(1, 1, 1, 1, 1, 2)),
    "TissueBox": _thing(
        "CounterTop:4 Shelf:3 Drawer:2 Cabinet Cart SideTable:2 Toilet:0.4 CoffeeTable:4 "
        "DiningTable:3 Desk:4 Dresser TVStand GarbageCan:0.3",
    ),
    "DishSponge": _thing(
        "CounterTop:4 Cabinet:3 Drawer:3 SinkBasin DiningTable:2 GarbageCan:0.8 BathtubBasin:3 Shelf Toilet Cart SideTable",
        "c",
    ),
    "PaperTowelRoll": _thing("CounterTop:3 Toilet:2 Shelf GarbageCan DiningTable SideTable Cart", copies=(1,)),
    # bedrooms and living rooms
    "AlarmClock": _thing("Desk:4 Shelf:3 SideTable:3 Dresser:2 DiningTable CounterTop:0", copies=(1, 1, 2, 3)),
    "Book": _thing(
        "Bed:5 Desk:3 Drawer:2 Dresser Shelf:0.5 SideTable DiningTable Sofa ArmChair "
        "CoffeeTable:3 Cabinet:0.5 CounterTop:2 Ottoman TVStand:0",
    ),
    "Boots": _thing("", copies=(1,)),
    "CD": _thing(
        "Drawer:4 Desk:3 Dresser:2 SideTable:2 GarbageCan Shelf DiningTable Cabinet:0.5 CoffeeTable Safe:0.3 CounterTop:0",
    ),
    "CellPhone": _thing(
        "Bed:5 Desk:3 Drawer:3 Dresser:2 SideTable:2 Shelf DiningTable CoffeeTable Sofa "
        "ArmChair:0.5 CounterTop:2 Ottoman:0.5 Cabinet:0 Safe:0",
    ),
    "CreditCard": _thing(_SMALL + " Ottoman:0.5 Safe:0.3"),
    "KeyChain": _thing(_SMALL + " Ottoman:0.5 Safe:0.5"),
    "Laptop": _thing(
        "Bed:8 Desk:2 Dresser:0.5 DiningTable:3 Sofa:4 CoffeeTable:4 SideTable ArmChair:0.5 TVStand Ottoman:0.3 CounterTop:0",
        copies=(1, 1, 2),
    ),
    "Newspaper": _thing(
        "Sofa:3 CoffeeTable:3 DiningTable:3 SideTable:2 Shelf:2 Dresser ArmChair Ottoman:0.5 "
        "Drawer:0.3 GarbageCan:0 Cabinet:0 TVStand:0.5",
    ),
    "Pen": _thing(_WRITING),
    "Pencil": _thing(_WRITING),
    "Pillow": _thing("Bed:9 Sofa:8 ArmChair:1.5 Ottoman:0.1", copies=(1, 1, 2)),
    "RemoteControl": _thing(
        "CoffeeTable:4 Sofa:3 SideTable:2 DiningTable:2 Dresser TVStand:2 ArmChair Drawer:1.5 "
        "Desk:3 Ottoman:0.5 Shelf:0.3 CounterTop",
    ),
    "Statue": _thing(_DECOR),
    "TeddyBear": _thing("Bed", copies=(1,)),
    "TennisRacket": _thing("Bed:0 Desk:0 Dresser:0 SideTable:0 DiningTable:0", copies=(1,)),
    "BaseballBat": _thing("Bed:0 SideTable:0 DiningTable:0", copies=(1,)),
    "BasketBall": _thing("Bed:0 Desk:0 Dresser:0 SideTable:0 DiningTable:0", copies=(1,)),
    "Vase": _thing(
        "Shelf:4 CoffeeTable:2 DiningTable:2 SideTable Dresser TVStand:0.5 CounterTop:2 Cabinet:2 Desk:0.5 Safe:0",
    ),
    "Watch": _thing("CoffeeTable:3 Drawer:3 SideTable:2 DiningTable Dresser TVStand Shelf Desk:2"),
    "WateringCan": _thing(
        "CoffeeTable:2 Shelf SideTable Dresser:0 Desk:0 DiningTable:0 Cabinet:0 Drawer:0",
        copies=(1,),
    ),
    "Box": _thing(
        "DiningTable:3 Sofa:3 CoffeeTable:3 SideTable Cabinet:0.5 Shelf:0.5 Dresser:0.5 ArmChair:0.4 Desk:0.5 Ottoman:0",
        "r",
        (1, 1, 2),
    ),
    "DeskLamp": _thing("Desk:3 SideTable:3 Dresser:2 Shelf CoffeeTable:0.3", "t", (1,), fixed=True),
    "HousePlant": _thing(
        "SideTable:4 CoffeeTable:2 Desk:2 Shelf:2 CounterTop:4 DiningTable Dresser TVStand:0.5",
        copies=(1,),
        fixed=True,
    ),
    "Television": _thing("TVStand:4 Dresser:3 CoffeeTable:0.5 SideTable:0.3", copies=(1,), fixed=True),
    # kitchens
    "Apple": _thing(_FOOD + " Microwave:1.5", "chks"),
    "Bread": _thing("CounterTop:5 DiningTable:3 Fridge SideTable GarbageCan:0.2 Microwave:0.1", "hks", (1, 1, 2)),
    "Egg": _thing(_FOOD + " Microwave:1.5", "chks"),
    "Lettuce": _thing("CounterTop:4 DiningTable:3 Fridge:2 SinkBasin:0.5 SideTable GarbageCan:0.2", "cks"),
    "Potato": _thing(_FOOD + " Microwave:1.5", "chks"),
    "Tomato": _thing(_FOOD + " Microwave:0", "chks"),
    "ButterKnife": _thing(_CUTLERY, "c"),
    "Fork": _thing(_CUTLERY, "c"),
    "Knife": _thing(_CUTLERY, "c"),
    "Spatula": _thing(_CUTLERY, "c"),
    "Spoon": _thing(_CUTLERY, "c"),
    "Ladle": _thing("CounterTop:4 Cabinet:3 Drawer:2 DiningTable SinkBasin:0.3", "c"),
    "Bowl": _thing(
        "Cabinet:4 CounterTop:3 Fridge:3 DiningTable:2 SinkBasin:0.5 Microwave:0.4 Shelf:1.5 "
        "SideTable:0.5 Desk:5 Dresser:2 CoffeeTable:3 TVStand",
        "ckr",
    ),
    "Cup": _thing("Cabinet:3 CounterTop:3 Fridge:3 DiningTable:2 SinkBasin Microwave SideTable Shelf", "chkr"),
    "Mug": _thing(
        "CounterTop:3 CoffeeMachine:2 Cabinet:2 Fridge:2 DiningTable:2 Microwave SinkBasin "
        "Shelf:1.5 Desk:5 SideTable:2 Dresser:2",
        "chkr",
    ),
    "Plate": _thing(
        "Cabinet:4 CounterTop:3 DiningTable:2 Fridge SinkBasin:0.4 Shelf Microwave:0.1 "
        "CoffeeTable:2 SideTable Dresser:0.2 TVStand:0.2",
        "chkr",
    ),
    "Pan": _thing("StoveBurner:5 CounterTop:4 Cabinet DiningTable Fridge:0.5 SinkBasin:0", "ckr", (1, 1, 2)),
    "Pot": _thing(
        "StoveBurner:7 CounterTop:2 Fridge:0.5 DiningTable:0.5 Cabinet:0.5 Shelf:0.2 SinkBasin:0.1",
        "ckr",
        (1, 1, 2),
    ),
    "Kettle": _thing("StoveBurner:4 CounterTop:2 Cabinet:2 DiningTable SinkBasin:0.2 Shelf:0.2", "c", (1, 2)),
    "PepperShaker": _thing(_SPICE),
    "SaltShaker": _thing(_SPICE),
    "WineBottle": _thing("CounterTop:4 Cabinet:3 DiningTable:3 GarbageCan Shelf Fridge:0.3 SideTable", "k"),
    "Glassbottle": _thing("Cabinet:3 CounterTop:3 DiningTable:2 SinkBasin Fridge GarbageCan Shelf Microwave:0"),
}
