"""A small kitchen as an ALFRED problem, written for the tests: it has every verb and the oddities of the real texts."""

from __future__ import annotations

OBJECTS = """
    agent1 - agent
    loc_bar_0 loc_bar_1 loc_bar_2 loc_bar_3 loc_bar_4 loc_bar_5 loc_bar_6 - location
    Cabinet_bar_1 Cabinet_bar_2 CounterTop_bar_1 DiningTable_bar_1 Fridge_bar_1 Microwave_bar_1 SideTable_bar_1
    Sink_bar_1_bar_SinkBasin - receptacle
    Apple_bar_1 Apple_bar_2 Knife_bar_1 Lettuce_bar_1 Mug_bar_1 Plate_bar_1 Spoon_bar_1 DeskLamp_bar_1 Egg_bar_1
    Chair_bar_1 - object
    CabinetType CounterTopType DiningTableType FridgeType MicrowaveType SideTableType SinkBasinType SinkType - rtype
    AppleType KnifeType ButterKnifeType LettuceType MugType PlateType SpoonType DeskLampType EggType ChairType - otype
"""

FACTS = """
    (atLocation agent1 loc_bar_0)
    (receptacleType Cabinet_bar_1 CabinetType) (receptacleAtLocation Cabinet_bar_1 loc_bar_2) (openable Cabinet_bar_1)
    (receptacleType Cabinet_bar_2 CabinetType) (receptacleAtLocation Cabinet_bar_2 loc_bar_2) (openable Cabinet_bar_2)
    (receptacleType CounterTop_bar_1 CounterTopType) (receptacleAtLocation CounterTop_bar_1 loc_bar_1)
    (receptacleType DiningTable_bar_1 DiningTableType) (receptacleAtLocation DiningTable_bar_1 loc_bar_1)
    (receptacleType Fridge_bar_1 FridgeType) (receptacleAtLocation Fridge_bar_1 loc_bar_3) (openable Fridge_bar_1)
    (receptacleType Microwave_bar_1 MicrowaveType) (receptacleAtLocation Microwave_bar_1 loc_bar_4)
    (openable Microwave_bar_1)
    (receptacleType SideTable_bar_1 SideTableType) (receptacleAtLocation SideTable_bar_1 loc_bar_6)
    (receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType) (receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_5)

    (objectType Apple_bar_1 AppleType) (pickupable Apple_bar_1) (sliceable Apple_bar_1)
    (cleanable Apple_bar_1) (heatable Apple_bar_1) (coolable Apple_bar_1)
    (inReceptacle Apple_bar_1 CounterTop_bar_1) (objectAtLocation Apple_bar_1 loc_bar_1)
    (objectType Apple_bar_2 AppleType) (pickupable Apple_bar_2) (sliceable Apple_bar_2)
    (cleanable Apple_bar_2) (heatable Apple_bar_2) (coolable Apple_bar_2)
    (inReceptacle Apple_bar_2 Fridge_bar_1) (objectAtLocation Apple_bar_2 loc_bar_3) (isCool Apple_bar_2)
    (objectType Knife_bar_1 KnifeType) (pickupable Knife_bar_1) (cleanable Knife_bar_1)
    (inReceptacle Knife_bar_1 DiningTable_bar_1) (objectAtLocation Knife_bar_1 loc_bar_1)
    (objectType Lettuce_bar_1 LettuceType) (pickupable Lettuce_bar_1) (sliceable Lettuce_bar_1)
    (cleanable Lettuce_bar_1) (coolable Lettuce_bar_1)
    (inReceptacle Lettuce_bar_1 Fridge_bar_1) (objectAtLocation Lettuce_bar_1 loc_bar_3)
    (objectType Mug_bar_1 MugType) (pickupable Mug_bar_1) (cleanable Mug_bar_1) (isReceptacleObject Mug_bar_1)
    (inReceptacle Mug_bar_1 Cabinet_bar_1) (objectAtLocation Mug_bar_1 loc_bar_2)
    (objectType Spoon_bar_1 SpoonType) (pickupable Spoon_bar_1) (cleanable Spoon_bar_1)
    (inReceptacle Spoon_bar_1 Cabinet_bar_1) (objectAtLocation Spoon_bar_1 loc_bar_2)
    (inReceptacleObject Spoon_bar_1 Mug_bar_1)
    (objectType Plate_bar_1 PlateType) (pickupable Plate_bar_1) (cleanable Plate_bar_1) (isReceptacleObject Plate_bar_1)
    (inReceptacle Plate_bar_1 Sink_bar_1_bar_SinkBasin) (objectAtLocation Plate_bar_1 loc_bar_5)
    (objectType DeskLamp_bar_1 DeskLampType) (toggleable DeskLamp_bar_1)
    (inReceptacle DeskLamp_bar_1 SideTable_bar_1) (objectAtLocation DeskLamp_bar_1 loc_bar_6)
    (objectType Egg_bar_1 EggType) (pickupable Egg_bar_1) (heatable Egg_bar_1) (coolable Egg_bar_1)
    (inReceptacle Egg_bar_1 CounterTop_bar_1) (inReceptacle Egg_bar_1 DiningTable_bar_1)
    (objectAtLocation Egg_bar_1 loc_bar_1)
    (objectType Chair_bar_1 ChairType) (objectAtLocation Chair_bar_1 loc_bar_1)

    (canContain CounterTopType AppleType) (canContain CounterTopType KnifeType) (canContain CounterTopType LettuceType)
    (canContain CounterTopType MugType) (canContain CounterTopType PlateType) (canContain CounterTopType SpoonType)
    (canContain CounterTopType EggType)
    (canContain DiningTableType AppleType) (canContain DiningTableType KnifeType) (canContain DiningTableType LettuceType)
    (canContain DiningTableType MugType) (canContain DiningTableType PlateType) (canContain DiningTableType SpoonType)
    (canContain DiningTableType EggType)
    (canContain CabinetType MugType) (canContain CabinetType PlateType) (canContain CabinetType SpoonType)
    (canContain FridgeType AppleType) (canContain FridgeType LettuceType) (canContain FridgeType MugType)
    (canContain FridgeType EggType)
    (canContain MicrowaveType AppleType) (canContain MicrowaveType MugType) (canContain MicrowaveType EggType)
    (canContain SinkBasinType AppleType) (canContain SinkBasinType KnifeType) (canContain SinkBasinType MugType)
    (canContain SinkBasinType PlateType) (canContain SinkBasinType SpoonType)
    (canContain SideTableType MugType) (canContain SideTableType AppleType) (canContain SideTableType DeskLampType)
"""


def place(target: str, receptacle: str, ability: str = "", flag: str = "") -> str:
    """A goal of the placing families; with `ability` and `flag` one of the processing ones."""
    state = f"({ability} ?o) ({flag} ?o)" if flag else ""
    return f"""(and (exists (?r - receptacle) (exists (?o - object) (and {state}
        (inReceptacle ?o ?r) (objectType ?o {target}Type) (receptacleType ?r {receptacle}Type)))))"""


def place_two(target: str, receptacle: str) -> str:
    """The goal of pick_two_obj_and_place."""
    return f"""(and (exists (?r - receptacle) (exists (?o1 - object) (and
        (objectType ?o1 {target}Type) (receptacleType ?r {receptacle}Type) (inReceptacle ?o1 ?r)
        (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 {target}Type)
            (receptacleType ?r {receptacle}Type) (inReceptacle ?o2 ?r)))))))"""


def look_at(target: str, lamp: str = "DeskLamp") -> str:
    """The goal of look_at_obj_in_light."""
    return f"""(and
        (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot {lamp}Type)
            (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))
        (exists (?o - object ?a - agent) (and (objectType ?o {target}Type) (holds ?a ?o))))"""


GOALS = {
    "pick_and_place_simple": ("put a mug in sidetable", place("Mug", "SideTable")),
    "look_at_obj_in_light": ("look at mug under the desklamp", look_at("Mug")),
    "pick_clean_then_place_in_recep": ("put a clean plate in cabinet", place("Plate", "Cabinet", "cleanable", "isClean")),
    "pick_heat_then_place_in_recep": ("put a hot apple in diningtable", place("Apple", "DiningTable", "heatable", "isHot")),
    "pick_cool_then_place_in_recep": ("put a cool egg in countertop", place("Egg", "CounterTop", "coolable", "isCool")),
    "pick_two_obj_and_place": ("put two apple in sidetable", place_two("Apple", "SideTable")),
}
"""Family to task sentence and goal in the kitchen."""


def problem(goal: str, objects: str = OBJECTS, facts: str = FACTS, domain: str = "alfred") -> str:
    """The kitchen as PDDL text with a goal."""
    return f"""(define (problem kitchen) (:domain {domain})
        (:objects {objects}) (:init {facts}) (:goal {goal}))"""
