"""The six task families: their names, what each asks for in which room, its sentence and its goal formula."""

from __future__ import annotations

from dataclasses import dataclass

from creditlab.environments.alfworld.things import weights

PICK = "pick_and_place_simple"
LOOK = "look_at_obj_in_light"
CLEAN = "pick_clean_then_place_in_recep"
HEAT = "pick_heat_then_place_in_recep"
COOL = "pick_cool_then_place_in_recep"
TWO = "pick_two_obj_and_place"
FAMILIES = (PICK, LOOK, CLEAN, HEAT, COOL, TWO)
ALIASES = {"pick": PICK, "look": LOOK, "clean": CLEAN, "heat": HEAT, "cool": COOL, "two": TWO, "pick_two": TWO}


def family_name(name: str) -> str:
    """The full name of a family given by its name or alias; raises ValueError listing what exists."""
    full = ALIASES.get(name, name)
    if full not in FAMILIES:
        raise ValueError(f"unknown task family {name!r}; there are {', '.join(ALIASES)} or in full {', '.join(FAMILIES)}")
    return full


@dataclass(frozen=True, slots=True)
class GoalTable:
    """Target types and goal receptacle types of one family in one room, with weights; a pair weighs their product."""

    targets: dict[str, float]
    receptacles: dict[str, float]


def _table(targets: str, receptacles: str = "") -> GoalTable:
    return GoalTable(weights(targets), weights(receptacles))


_BATHROOM = "ToiletPaper:5 SoapBottle:5 SprayBottle:5 Candle:5 HandTowel:3 Cloth TissueBox:2 DishSponge:2 SoapBar"
_BEDROOM = "CellPhone:5 CD:3 Book:3 KeyChain:3 Pencil:2 AlarmClock:2 Pen:2 CreditCard:2 Laptop Mug TissueBox Watch Statue"
_LIVING_ROOM = (
    "RemoteControl:4 KeyChain:3 CreditCard:3 Newspaper:3 Book:3 Statue:2 Box:2 Laptop Pillow Vase:2 Watch:2 TissueBox:2"
)
_SEATS_AND_TABLES = "ArmChair:5 Sofa:5 CoffeeTable:4 Ottoman:4 SideTable Dresser:2 Drawer DiningTable:0.5 GarbageCan:0.5 Safe"
_TABLEWARE = "Mug:3 Bowl:2 Cup:2 Plate:2 Apple:2 Potato:2 Tomato:2 Egg:2"

GOALS: dict[tuple[str, str], GoalTable] = {
    (PICK, "bathroom"): _table(
        _BATHROOM,
        "Toilet:3 GarbageCan:2 ToiletPaperHanger:6 CounterTop:2 Cabinet:2 Drawer:2 Cart:3 SideTable:2 Shelf Dresser",
    ),
    (PICK, "bedroom"): _table(
        _BEDROOM + " Pillow RemoteControl",
        "Desk:4 Shelf:3 SideTable:3 Dresser:3 Bed:3 ArmChair:4 Safe:5 DiningTable:4 Drawer Cabinet GarbageCan:0.3",
    ),
    (PICK, "living_room"): _table(_LIVING_ROOM + " Plate Bowl", _SEATS_AND_TABLES),
    (PICK, "kitchen"): _table(
        "PepperShaker:3 SaltShaker:2 Glassbottle:3 Kettle:3 Tomato:2 ButterKnife:2 Pan:2 WineBottle:2 Egg Bowl Bread",
        "Microwave:4 DiningTable:3 Drawer:3 CounterTop:2 Cabinet:2 Shelf:4 Fridge:2 SideTable:3 StoveBurner GarbageCan:0.3",
    ),
    (LOOK, "bedroom"): _table(
        "AlarmClock:4 Pillow:4 CD:3 Book:3 Pencil:2 Pen:2 Bowl:2 Laptop:2 CellPhone Statue TissueBox CreditCard Mug"
    ),
    (LOOK, "living_room"): _table("Newspaper:4 Box:3 Pillow:2 Statue:2 TissueBox Laptop Plate Watch Vase"),
    (CLEAN, "bathroom"): _table(
        "SoapBar:5 Cloth:3 DishSponge:3", "Toilet:3 CounterTop:3 Drawer:3 Cabinet:2 GarbageCan:2 Cart:3 Shelf:2 Dresser"
    ),
    (CLEAN, "kitchen"): _table(
        _TABLEWARE + " Kettle:3 Ladle:3 Knife:2 Lettuce:2 Spatula:2 Pan:2 ButterKnife:2 Spoon:2 Fork:2 Pot DishSponge",
        "DiningTable:4 CounterTop:3 Drawer:2 Microwave:2 Fridge:2 SideTable:3 Cabinet:2 StoveBurner:3 CoffeeMachine:3 Shelf",
    ),
    (HEAT, "kitchen"): _table(
        "Mug:5 Cup:4 Egg:4 Potato:3 Tomato:3 Apple:3 Plate:2 Bread",
        "Fridge:4 Cabinet:3 CounterTop:3 GarbageCan:3 CoffeeMachine:6 SideTable:4 DiningTable:2 Shelf:2",
    ),
    (COOL, "kitchen"): _table(
        _TABLEWARE + " Pot:3 Pan:2 Bread:2 Lettuce:2 WineBottle",
        "Microwave:4 DiningTable:4 CounterTop:4 Cabinet:3 CoffeeMachine:6 GarbageCan:2 Shelf:3 StoveBurner:4 SideTable:2",
    ),
    (TWO, "bathroom"): _table(
        _BATHROOM, "Toilet:3 Cabinet:3 Drawer:3 GarbageCan:2 CounterTop:2 Cart:3 Shelf:2 Dresser SideTable"
    ),
    (TWO, "bedroom"): _table(
        _BEDROOM + " Bowl", "Desk:3 Drawer:3 Dresser:3 Bed:3 SideTable:2 Shelf:2 DiningTable:3 Safe:2 ArmChair GarbageCan:0.5"
    ),
    (TWO, "living_room"): _table(_LIVING_ROOM + " CellPhone Plate", _SEATS_AND_TABLES),
    (TWO, "kitchen"): _table(
        "SaltShaker:4 PepperShaker:4 Cup:3 Lettuce:2 Kettle Spatula WineBottle Spoon Egg Ladle Potato Bread Glassbottle Pot",
        "Drawer:4 Cabinet:4 Fridge:3 Shelf:3 CounterTop:2 Microwave:2 DiningTable:2 SideTable:2 GarbageCan:0.5",
    ),
}

SHARES = {(CLEAN, "kitchen"): 3}
"""How often a room's turn comes among the games of its family; once where it is not named. Kitchens hold more than bathrooms,
and three of four of the real games take place in one."""

_SENTENCES = {
    PICK: ("put a {o} in {g}", "put some {o} on {g}"),
    LOOK: ("look at {o} under the {g}", "examine the {o} with the {g}"),
    CLEAN: ("put a clean {o} in {g}", "clean some {o} and put it in {g}"),
    HEAT: ("put a hot {o} in {g}", "heat some {o} and put it in {g}"),
    COOL: ("put a cool {o} in {g}", "cool some {o} and put it in {g}"),
    TWO: ("put two {o} in {g}", "find two {o} and put them in {g}"),
}
_PROCESSED = {CLEAN: "(cleanable ?o) (isClean ?o)", HEAT: "(heatable ?o) (isHot ?o)", COOL: "(coolable ?o) (isCool ?o)"}


def task_sentences(family: str, target: str, goal: str) -> tuple[str, ...]:
    """The sentences that may state a task, without the final period."""
    return tuple(sentence.format(o=target.lower(), g=goal.lower()) for sentence in _SENTENCES[family])


def goal_text(family: str, target: str, goal: str) -> str:
    """The goal formula of a family for a target type and a goal type (a receptacle type, or a lamp type)."""
    if family == LOOK:
        lamp = f"(objectType ?ot {goal}Type) (toggleable ?ot) (isToggled ?ot)"
        here = "(receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)"
        held = f"(exists (?o - object ?a - agent) (and (objectType ?o {target}Type) (holds ?a ?o)))"
        return f"(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and {lamp} {here})) {held})"
    if family == TWO:
        first = f"(objectType ?o1 {target}Type) (receptacleType ?r {goal}Type) (inReceptacle ?o1 ?r)"
        second = f"(not (= ?o1 ?o2)) (objectType ?o2 {target}Type) (receptacleType ?r {goal}Type) (inReceptacle ?o2 ?r)"
        both = f"(exists (?o1 - object) (and {first} (exists (?o2 - object) (and {second}))))"
        return f"(and (exists (?r - receptacle) {both}))"
    state = _PROCESSED.get(family, "")
    body = f"{state} (objectType ?o {target}Type) (receptacleType ?r {goal}Type) (inReceptacle ?o ?r)".strip()
    return f"(and (exists (?r - receptacle) (exists (?o - object) (and {body}))))"
