"""Household scenes: what stands in a room, what lies where, and which floor plans exist.

The tables are this project's own. A table entry is a word with an optional weight (`CounterTop:4`; 1 without one). Counts and
weights follow everyday households so that games are about as rich as the published ones (number of receptacles, objects and
commands); a plan is drawn once per room type and number, so a floor plan is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from creditlab.environments.dice import Dice

ROOMS = ("kitchen", "living_room", "bedroom", "bathroom")
FIRST_PLAN = {"kitchen": 1, "living_room": 201, "bedroom": 301, "bathroom": 401}
"""Number of the first floor plan of each room type; each type has `PLANS` consecutive ones."""
PLANS = 30
UNSEEN_PLANS = 6
"""The first plans of each room type are never used for training."""


@dataclass(frozen=True, slots=True)
class Room:
    """A room type: its furniture, what every such room holds, and what some of them hold besides."""

    furniture: dict[str, tuple[int, ...]]
    """Receptacle type to the numbers of them in one plan, equally likely."""
    staples: tuple[str, ...]
    extras: dict[str, float]
    """Object type to the probability that a plan's pool has it."""
    fixtures: dict[str, tuple[int, ...]]
    """Things that stand apart from any receptacle: type to the numbers of them in one plan, equally likely."""


OPENABLE = {"Drawer": 0.9, "Cabinet": 0.85, "Fridge": 1.0, "Microwave": 1.0, "Safe": 0.8}
"""Receptacle type to the share of them that can be opened and closed; others stand open."""
SHARED_PLACE = {"Drawer": 0.16, "Cabinet": 0.16, "Shelf": 0.12, "StoveBurner": 0.25}
"""Receptacle type to the probability that one is reached from the same spot as the one before it."""
CAPACITY = {"ToiletPaperHanger": 1, "HandTowelHolder": 1, "TowelHolder": 1, "CoffeeMachine": 2, "StoveBurner": 2}
"""Receptacle types that hold few things at first."""
LAMP = "DeskLamp"

ROOM_TABLES: dict[str, Room] = {
    "bathroom": Room(
        furniture={
            "GarbageCan": (1,),
            "HandTowelHolder": (1, 1, 1, 2, 2),
            "SinkBasin": (1, 2),
            "ToiletPaperHanger": (1,),
            "Toilet": (1,),
            "TowelHolder": (1, 1, 1, 2),
            "CounterTop": (0, 1, 1, 1, 1, 1, 2),
            "BathtubBasin": (0, 1, 1),
            "Drawer": (0, 0, 0, 0, 1, 2, 4, 6, 8),
            "Cabinet": (0, 0, 0, 3, 4, 4),
            "Shelf": (0, 0, 0, 1, 2, 3),
            "Cart": (0,) * 9 + (1,),
            "Dresser": (0,) * 12 + (1,),
            "SideTable": (0,) * 9 + (1,),
        },
        staples=("Candle", "ToiletPaper", "Cloth", "SprayBottle", "SoapBottle", "SoapBar", "HandTowel", "Towel"),
        extras={"TissueBox": 0.3, "DishSponge": 0.25, "PaperTowelRoll": 0.15},
        fixtures={
            "Mirror": (1,),
            "Sink": (1, 1, 2),
            "ScrubBrush": (1,),
            "LightSwitch": (1,),
            "Plunger": (1,),
            "Bathtub": (0, 1, 1, 1),
            "Window": (0, 1, 1, 2),
            "ShowerDoor": (0, 1),
            "ShowerGlass": (0, 1),
            "Painting": (0, 0, 0, 1),
            "FloorLamp": (0,) * 9 + (1,),
        },
    ),
    "bedroom": Room(
        furniture={
            "Bed": (1, 1, 1, 1, 1, 2),
            "GarbageCan": (1,),
            "Drawer": (2, 3, 4, 5, 6, 8, 10),
            "Desk": (0, 1, 1),
            "Shelf": (0, 1, 1, 2, 4, 5, 6, 9),
            "SideTable": (0, 1, 1, 2),
            "Dresser": (0, 1),
            "LaundryHamper": (0, 0, 0, 1),
            "ArmChair": (0, 0, 0, 1),
            "Safe": (0, 0, 0, 0, 0, 1),
            "Cabinet": (0,) * 7 + (2,),
            "DiningTable": (0,) * 7 + (1,),
        },
        staples=("Pencil", "KeyChain", "CreditCard", "CellPhone", "Laptop", "CD", "AlarmClock", "Pen", "Book", "Pillow"),
        extras={
            "DeskLamp": 0.8,
            "Mug": 0.5,
            "Bowl": 0.4,
            "TeddyBear": 0.3,
            "Statue": 0.2,
            "TissueBox": 0.2,
            "RemoteControl": 0.15,
            "Watch": 0.15,
            "Vase": 0.1,
        },
        fixtures={
            "Window": (1, 1, 2, 2),
            "LightSwitch": (1,),
            "Mirror": (1,),
            "Blinds": (1, 1, 2),
            "Chair": (0, 1, 1, 2),
            "Box": (0, 1),
            "Painting": (0, 1, 1),
            "BaseballBat": (0, 1),
            "TennisRacket": (0, 1),
            "BasketBall": (0, 1),
            "Poster": (0, 0, 1),
            "HousePlant": (0, 0, 1),
            "Curtains": (0, 1),
            "Boots": (0, 0, 1),
            "Footstool": (0, 0, 1),
        },
    ),
    "living_room": Room(
        furniture={
            "GarbageCan": (1,),
            "Sofa": (1, 1, 1, 2),
            "ArmChair": (1, 1, 2),
            "CoffeeTable": (1, 1, 1, 1, 2),
            "Drawer": (0, 1, 1, 3, 4, 4, 6, 7),
            "SideTable": (0, 1, 1, 2, 3),
            "DiningTable": (0, 1),
            "TVStand": (0, 1),
            "Shelf": (0, 0, 0, 1, 3, 5, 8),
            "Dresser": (0, 0, 1),
            "Ottoman": (0, 0, 0, 1),
            "Cabinet": (0,) * 7 + (4,),
            "Safe": (0,) * 15 + (1,),
        },
        staples=("RemoteControl", "CreditCard", "Box", "Laptop", "KeyChain", "Pillow", "Statue", "HousePlant", "Television"),
        extras={
            "Newspaper": 0.65,
            "Vase": 0.6,
            "Watch": 0.5,
            "Plate": 0.35,
            "TissueBox": 0.35,
            "Book": 0.35,
            "WateringCan": 0.3,
            "DeskLamp": 0.5,
            "CellPhone": 0.25,
            "Pen": 0.2,
            "Pencil": 0.2,
            "Bowl": 0.15,
            "Candle": 0.1,
        },
        fixtures={
            "FloorLamp": (1,),
            "LightSwitch": (1,),
            "Painting": (1, 2, 2, 3),
            "Window": (1, 2, 3, 4),
            "Chair": (0, 1, 2, 4, 6),
            "Curtains": (0, 1),
            "Boots": (0, 0, 1),
            "Mirror": (0, 0, 1),
        },
    ),
    "kitchen": Room(
        furniture={
            "Cabinet": (4, 8, 9, 10, 11, 12, 13, 13, 15, 18, 20),
            "CoffeeMachine": (1,),
            "CounterTop": (1, 2, 2, 3, 3, 4),
            "Fridge": (1,),
            "GarbageCan": (1,),
            "Microwave": (1,),
            "SinkBasin": (1,),
            "StoveBurner": (4,),
            "Toaster": (1,),
            "Drawer": (1, 3, 3, 4, 4, 5, 6, 8, 12),
            "DiningTable": (0, 1),
            "Shelf": (0, 0, 0, 0, 3),
            "SideTable": (0, 0, 0, 0, 1),
        },
        staples=(
            "Spoon",
            "Mug",
            "Bread",
            "SoapBottle",
            "Pot",
            "Cup",
            "Fork",
            "Knife",
            "PepperShaker",
            "Potato",
            "Egg",
            "Tomato",
            "Bowl",
            "DishSponge",
            "Apple",
            "Lettuce",
            "Pan",
            "Plate",
            "Spatula",
            "SaltShaker",
            "ButterKnife",
        ),
        extras={
            "Kettle": 0.5,
            "WineBottle": 0.4,
            "HousePlant": 0.35,
            "Ladle": 0.35,
            "PaperTowelRoll": 0.35,
            "Glassbottle": 0.25,
            "Vase": 0.15,
            "Statue": 0.15,
            "Book": 0.1,
            "CellPhone": 0.1,
            "CreditCard": 0.1,
            "SprayBottle": 0.06,
        },
        fixtures={
            "StoveKnob": (4,),
            "Sink": (1,),
            "LightSwitch": (1,),
            "Window": (0, 1, 1, 2),
            "Chair": (0, 1, 1, 2, 4),
            "Blinds": (0, 0, 0, 1),
            "Curtains": (0, 0, 0, 1),
            "Mirror": (0, 0, 0, 1),
        },
    ),
}

FIXTURE_TRAITS: dict[str, frozenset[str]] = {
    "FloorLamp": frozenset({"toggleable"}),
    **{name: frozenset({"pickupable"}) for name in ("ScrubBrush", "Plunger", "Footstool")},
}
"""Traits of fixtures that are no entry of `THINGS`; the others have none."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    """One piece of furniture of a floor plan."""

    type: str
    place: int
    """Number of the spot it is reached from; 0 is the middle of the room."""
    openable: bool


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """One room with its furniture and fixtures; what lies in it is drawn anew for every game."""

    room: str
    number: int
    receptacles: tuple[Receptacle, ...]
    fixtures: tuple[str, ...]
    pool: tuple[str, ...]
    """Object types to be found in this room."""

    @property
    def types(self) -> frozenset[str]:
        """The receptacle types of this plan."""
        return frozenset(receptacle.type for receptacle in self.receptacles)


@cache
def floor_plan(room: str, number: int) -> FloorPlan:
    """The floor plan of that number; raises ValueError for a number outside the room type's range."""
    first = FIRST_PLAN[room]
    if not first <= number < first + PLANS:
        raise ValueError(f"{room} has the floor plans {first} to {first + PLANS - 1}, not {number}")
    table = ROOM_TABLES[room]
    dice = Dice(number)
    receptacles: list[Receptacle] = []
    place = 0
    for kind, counts in table.furniture.items():
        for copy in range(dice.one_of(counts)):
            if copy == 0 or not dice.chance(SHARED_PLACE.get(kind, 0.0)):
                place += 1
            receptacles.append(Receptacle(kind, place, dice.chance(OPENABLE.get(kind, 0.0))))
    fixtures = [kind for kind, counts in table.fixtures.items() for _ in range(dice.one_of(counts))]
    extras = [kind for kind, probability in table.extras.items() if dice.chance(probability)]
    return FloorPlan(room, number, tuple(receptacles), tuple(fixtures), (*table.staples, *extras))


def plan_numbers(room: str, *, unseen: bool = False) -> range:
    """Numbers of a room type's floor plans: those for training, or those kept for evaluation."""
    first = FIRST_PLAN[room]
    return range(first, first + UNSEEN_PLANS) if unseen else range(first + UNSEEN_PLANS, first + PLANS)


def room_of_plan(number: int) -> str:
    """The room type of a floor plan's number; raises ValueError for a number of no room type."""
    for room, first in FIRST_PLAN.items():
        if first <= number < first + PLANS:
            return room
    raise ValueError(f"no room type has the floor plan {number}")
