"""What the synthetic shop sells: product kinds with their attributes, options and prices, and the sentences about them.

The tables are this project's own. Kinds of different categories come first, so that a small shop of the first few is varied;
so are the values of an option, so that the first few of them differ most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property that products are searched by: what a product is (`quick drying`) or what it has (`arch support`)."""

    text: str
    has: bool


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of product."""

    article: str
    name: str
    """As titles and people say it, lower case; its words occur in the query as well."""
    query: str
    category: str
    path: str
    """The category path, levels separated by `›`."""
    attributes: tuple[Attribute, ...]
    options: Mapping[str, tuple[str, ...]]
    prices: tuple[int, int]
    """The lowest and the highest price in dollars."""


def words(text: str) -> tuple[str, ...]:
    """Reads a table entry whose parts are separated by `;`."""
    return tuple(part.strip() for part in text.split(";"))


_COLORS = words(
    "Black; White; Red; Navy Blue; Grey; Pink; Forest Green; Black/White; Purple; Yellow; Orange; Brown; Sky Blue; Beige; "
    "Red/Black; Mint Green; Dark Grey; Ivory; Teal; Charcoal"
)
_SHADES = words("Coral; Nude; Berry Red; Rose Pink; Plum; Cherry; Peach; Mauve; Brick (Matte); Wine; 04 Bronze; 12 Cocoa")
_METALS = words("Silver; Gold; Black; Rose Gold; Bronze; Brushed Nickel; Copper; Gold/Black")
_WOODS = words("Oak; Walnut; White; Espresso; Black; Natural; Grey/White; Rustic Brown/Black")
_CLOTHES = words("Small; Large; Medium; X-Large; XX-Large; 3X-Large; X-Small; Large Tall")
_SHOES = words("8; 9; 7; 10; 6.5; 8.5; 11; 9 Wide; 10 Wide; 7.5")
_WAISTS = words("32W x 30L; 34W x 32L; 36W x 29L; 38W x 34L; 33W x 31L")
_PACKS = words("Single; Pack of 3; Case of 12; Box of 6 (Mixed)")
_OUNCES = words("12 Ounce; 8 Ounce (Pack of 2); 2.5 Pound Bag; 10 Count; 32 Ounce Jar")
_BOTTLES = words("4 Fl Oz; 16 Fl Oz; 1.7 Fl Oz; 33.8 Fl Oz; 3.4 Fl Oz (Pack of 2)")
_BEDS = words("Queen; King; Twin; Full; California King; Twin XL; Full/Queen")
_RUGS = words("5 ft x 8 ft; 2 ft x 3 ft; 9 ft x 12 ft; 4 ft Round; 6 ft Runner")
_PHONES = words("iPhone 12/12 Pro; Galaxy S21; Pixel 6; iPhone 13 Pro Max; Galaxy S22 Ultra; iPhone XR")
_STORAGE = words("64 GB; 128 GB; 256 GB; 32 GB; 512 GB; 1 TB")
_LENGTHS = words("6 Feet; 3 Feet; 10 Feet; 20 Inches; 25 Feet")
_SCENTS = words("Lavender; Vanilla; Fresh Linen; Citrus; Cedar; Eucalyptus/Mint; Unscented; Ocean Breeze")
_SWEET = words("Vanilla; Chocolate; Strawberry; Peanut Butter; Cookies & Cream; Salted Caramel; Mocha; Banana")
_SAVORY = words("Sea Salt; Barbecue; Cheddar; Sour Cream/Onion; Spicy Chili; Ranch; Honey Mustard; Garlic & Herb")
_LIGHT = words("Soft White; Amber; Multicolor; 3000K; 5000K")
_SHAPES = words("Round; Square; Oblong; Oval; L-Shaped (Left); L-Shaped (Right)")

_WEAR = (
    "machine wash; +long sleeve; quick drying; +elastic waist; hand wash; +button closure; wrinkle resistant; +classic fit"
)
_FEET = "non slip; +arch support; lightweight; +rubber sole; water resistant; +memory foam; slip resistant; +ankle support"
_SOUND = (
    "noise cancelling; water resistant; +fast charging; long lasting; +stereo sound; hands free; easy to carry; +deep bass"
)
_POWER = "+fast charging; easy to use; +usb port; compact; heavy duty; +led display; high speed; plug and play"
_SKIN = (
    "fragrance free; cruelty free; +hyaluronic acid; paraben free; +coconut oil; clinically tested; +aloe vera; for dry skin"
)
_MAKEUP = (
    "long lasting; cruelty free; +vitamin e; easy to apply; paraben free; +natural ingredients; smudge proof; alcohol free"
)
_FOOD = (
    "gluten free; low sugar; +natural flavors; non gmo; dairy free; keto friendly; +resealable bag; sugar free; usda organic"
)
_ROOM = "machine washable; easy to clean; +non slip backing; stain resistant; eco friendly; +faded design; super soft"
_WOODWORK = (
    "easy to assemble; +solid wood; space saving; +storage space; heavy duty; easy to clean; +steel frame; assembly free"
)
_LAMP = "+eye protection; energy efficient; +usb port; dimmable; easy to install; +glass shade; space saving; +remote control"
_SPORT = "non slip; lightweight; +carrying strap; eco friendly; leak proof; +extra thickness; easy to clean; bpa free"

_FASHION = "Clothing, Shoes & Jewelry"
_BEAUTY = "Beauty & Personal Care"
_GROCERY = "Grocery & Gourmet Food"
_HOME = "Home & Kitchen"
_TECH = "Electronics"
_OUTDOORS = "Sports & Outdoors"
_CATEGORIES = {
    _FASHION: "fashion",
    _BEAUTY: "beauty",
    _GROCERY: "grocery",
    _HOME: "garden",
    _TECH: "electronics",
    _OUTDOORS: "sports",
}


def _kind(
    named: str, query: str, path: str, attributes: str, prices: tuple[int, int], options: Mapping[str, tuple[str, ...]]
) -> Kind:
    """Reads a table entry; a `+` marks what a product has."""
    article, _, name = named.partition(" ")
    entries = words(attributes)
    read = tuple(Attribute(entry.lstrip("+"), entry.startswith("+")) for entry in entries)
    category = _CATEGORIES[path.partition(" › ")[0]]
    return Kind(article, name, query, category, path, read, options, prices)


KINDS: tuple[Kind, ...] = (
    _kind(
        "a backpack",
        "travel backpack",
        f"{_FASHION} › Luggage & Travel Gear › Backpacks",
        "water resistant; lightweight; +laptop sleeve; anti theft; +padded straps; heavy duty; +usb port; easy to clean",
        (24, 95),
        {"Color": _COLORS, "Size": words("20 L; 30 L; 15 L; 40 L")},
    ),
    _kind(
        "some headphones",
        "wireless headphones",
        f"{_TECH} › Headphones, Earbuds & Accessories › Over-Ear Headphones",
        _SOUND,
        (19, 180),
        {"Color": _COLORS},
    ),
    _kind(
        "a lipstick",
        "matte lipstick",
        f"{_BEAUTY} › Makeup › Lips › Lipstick",
        _MAKEUP,
        (5, 28),
        {"Color": _SHADES},
    ),
    _kind(
        "some coffee",
        "ground coffee",
        f"{_GROCERY} › Beverages › Coffee › Ground Coffee",
        "usda organic; +rich flavor; non gmo; low acid; +dark roast; gluten free; +recyclable cups; fair trade",
        (8, 45),
        {"Size": _OUNCES, "Flavor Name": words("Vanilla; Hazelnut; Mocha; Caramel; Cinnamon; Original")},
    ),
    _kind(
        "a rug",
        "area rug",
        f"{_HOME} › Home Décor Products › Area Rugs, Runners & Pads › Area Rugs",
        _ROOM,
        (25, 320),
        {"Color": _COLORS, "Size": _RUGS},
    ),
    _kind(
        "some sneakers",
        "walking sneakers",
        f"{_FASHION} › Women › Shoes › Fashion Sneakers",
        _FEET,
        (29, 110),
        {"Color": _COLORS, "Size": _SHOES},
    ),
    _kind(
        "a yoga mat",
        "exercise yoga mat",
        f"{_OUTDOORS} › Exercise & Fitness › Yoga › Mats",
        _SPORT,
        (14, 75),
        {"Color": _COLORS},
    ),
    _kind(
        "a desk lamp",
        "led desk lamp",
        f"{_HOME} › Lighting › Lamps & Shades › Desk Lamps",
        _LAMP,
        (18, 85),
        {"Color": _METALS, "Style": words("Clamp Base; Round Base; Wall Mount")},
    ),
    _kind(
        "a moisturizer",
        "face moisturizer",
        f"{_BEAUTY} › Skin Care › Face › Creams & Moisturizers",
        _SKIN,
        (9, 60),
        {"Size": _BOTTLES},
    ),
    _kind(
        "a speaker",
        "bluetooth speaker",
        f"{_TECH} › Portable Audio & Video › Portable Speakers",
        _SOUND,
        (17, 160),
        {"Color": _COLORS, "Style": words("Mini; Tower; Travel")},
    ),
    _kind(
        "a snack bar",
        "protein snack bar",
        f"{_GROCERY} › Snack Foods › Bars › Protein Bars",
        _FOOD,
        (6, 40),
        {"Flavor Name": _SWEET, "Size": _PACKS},
    ),
    _kind(
        "a hoodie",
        "pullover hoodie men",
        f"{_FASHION} › Men › Clothing › Fashion Hoodies & Sweatshirts",
        _WEAR,
        (22, 70),
        {"Color": _COLORS, "Size": _CLOTHES},
    ),
    _kind(
        "a phone case",
        "clear phone case",
        f"{_TECH} › Cell Phones & Accessories › Cases, Holsters & Sleeves › Basic Cases",
        "shock proof; +wireless charging; +tempered glass; heavy duty; scratch resistant; +kickstand; dust proof; slim fit",
        (8, 48),
        {"Color": _COLORS, "Size": _PHONES},
    ),
    _kind(
        "some curtains",
        "blackout curtains",
        f"{_HOME} › Window Treatments › Curtains & Drapes › Panels",
        "machine washable; energy efficient; noise reducing; +grommet top; light blocking; easy to hang; +rod pocket",
        (16, 95),
        {"Color": _COLORS, "Size": words("52 in x 84 in; 42 in x 63 in; 52 in x 96 in; 38 in x 45 in")},
    ),
    _kind(
        "a water bottle",
        "sports water bottle",
        f"{_OUTDOORS} › Outdoor Recreation › Accessories › Water Bottles",
        "leak proof; bpa free; +stainless steel; double walled; dishwasher safe; +straw lid; easy to carry; +wide mouth",
        (10, 45),
        {"Color": _COLORS, "Size": words("24 oz; 32 oz; 18 oz; 40 oz")},
    ),
    _kind(
        "a shampoo",
        "repair shampoo",
        f"{_BEAUTY} › Hair Care › Shampoo & Conditioner › Shampoos",
        "sulfate free; +argan oil; paraben free; cruelty free; +tea tree oil; color safe; +coconut oil; for dry hair",
        (7, 42),
        {"Size": _BOTTLES, "Scent": _SCENTS},
    ),
    _kind(
        "a coffee table",
        "living room coffee table",
        f"{_HOME} › Furniture › Living Room Furniture › Tables",
        _WOODWORK,
        (65, 480),
        {"Color": _WOODS, "Item Shape": _SHAPES},
    ),
    _kind(
        "some chips",
        "potato chips",
        f"{_GROCERY} › Snack Foods › Chips & Crisps › Potato",
        _FOOD,
        (4, 36),
        {"Flavor Name": _SAVORY, "Size": _OUNCES},
    ),
    _kind(
        "a watch",
        "smart watch",
        f"{_TECH} › Wearable Technology › Smartwatches",
        "water resistant; +heart rate monitor; long lasting; +sleep tracking; +fast charging; lightweight; +nfc payment",
        (35, 290),
        {"Color": _COLORS, "Size": words("41 mm; 45 mm; 38 mm")},
    ),
    _kind(
        "some jeans",
        "relaxed fit jeans",
        f"{_FASHION} › Men › Clothing › Jeans",
        "machine wash; +button closure; +straight leg; stretchy; +relaxed fit; stone washed; +zipper closure; +cotton blend",
        (25, 90),
        {"Color": words("Indigo; Black; Dark Rinse; Grey; Light Rinse; Blue/Grey"), "Size": _WAISTS},
    ),
    _kind(
        "a tent",
        "camping tent",
        f"{_OUTDOORS} › Outdoor Recreation › Camping & Hiking › Tents",
        "water resistant; easy to set up; lightweight; +carrying bag; wind proof; +mesh windows; uv protected; +two doors",
        (59, 420),
        {"Color": _COLORS, "Size": words("Solo; Couple; Family (4 Person); Group/Cabin")},
    ),
    _kind(
        "a perfume",
        "eau de parfum perfume",
        f"{_BEAUTY} › Fragrance › Women's › Eau de Parfum",
        "long lasting; alcohol free; +natural ingredients; travel size; cruelty free; +floral notes; +spray pump; vegan",
        (14, 130),
        {"Size": _BOTTLES, "Scent": words("Rose; Jasmine; White Musk; Amber; Citrus; Vanilla/Oak")},
    ),
    _kind(
        "a charger",
        "usb c charger",
        f"{_TECH} › Cell Phones & Accessories › Chargers & Power Adapters › Wall Chargers",
        _POWER,
        (9, 65),
        {"Color": words("White; Black; Pink; Blue"), "Size": _LENGTHS},
    ),
    _kind(
        "some sheets",
        "cotton bed sheets",
        f"{_HOME} › Bedding › Sheets & Pillowcases › Sheet Sets",
        "machine washable; super soft; +deep pockets; fade resistant; wrinkle free; breathable; +long fibers; hypoallergenic",
        (22, 120),
        {"Color": _COLORS, "Size": _BEDS},
    ),
    _kind(
        "some boots",
        "winter boots",
        f"{_FASHION} › Women › Shoes › Boots",
        _FEET + "; +faux fur lining",
        (39, 160),
        {"Color": _COLORS, "Size": _SHOES},
    ),
    _kind(
        "some almonds",
        "roasted almonds",
        f"{_GROCERY} › Snack Foods › Nuts & Seeds › Almonds",
        _FOOD,
        (7, 48),
        {"Flavor Name": words("Sea Salt; Honey; Smokehouse; Cocoa; Unsalted; Salt & Vinegar"), "Size": _OUNCES},
    ),
    _kind(
        "a hard drive",
        "external hard drive",
        f"{_TECH} › Computers & Accessories › Data Storage › External",
        _POWER + "; shock proof",
        (29, 240),
        {"Capacity": _STORAGE, "Color": words("Black; Silver; Blue; Red")},
    ),
    _kind(
        "a sofa",
        "sectional sofa",
        f"{_HOME} › Furniture › Living Room Furniture › Sofas & Couches",
        _WOODWORK + "; +memory foam; +faux leather",
        (420, 1300),
        {"Color": _COLORS},
    ),
    _kind(
        "a dress",
        "summer dress",
        f"{_FASHION} › Women › Clothing › Dresses",
        "machine wash; +short sleeve; hand wash; +elastic waist; lightweight; +floral print; +side pockets; quick drying",
        (18, 85),
        {"Color": _COLORS, "Size": _CLOTHES},
    ),
    _kind(
        "some dumbbells",
        "neoprene dumbbells",
        f"{_OUTDOORS} › Exercise & Fitness › Strength Training › Dumbbells",
        "non slip; heavy duty; easy to grip; +storage rack; floor friendly; +hexagon heads; easy to clean; adjustable",
        (15, 210),
        {"Size": words("5 lb; 10 lb; 20 lb; 3 lb (Set of 2); 12 lb")},
    ),
    _kind(
        "a candle",
        "scented candle",
        f"{_HOME} › Home Décor Products › Candles & Holders › Jar Candles",
        "long lasting; +soy wax; lead free; smoke free; +glass jar; hand made; +essential oils; eco friendly",
        (8, 42),
        {"Scent": _SCENTS},
    ),
    _kind(
        "some light bulbs",
        "led light bulbs",
        f"{_HOME} › Lighting › Light Bulbs › LED Bulbs",
        _LAMP,
        (7, 50),
        {"Color": _LIGHT, "Size": words("2 Pack; 4 Pack; 6 Pack; 12 Pack")},
    ),
    _kind(
        "a keyboard",
        "gaming keyboard",
        f"{_TECH} › Computers & Accessories › Keyboards, Mice & Accessories › Keyboards",
        "plug and play; +backlit keys; easy to use; spill resistant; +wrist rest; compact; high speed; hot swappable",
        (19, 190),
        {"Color": _COLORS, "Style": words("Linear Switch; Tactile Switch; Clicky Switch")},
    ),
    _kind(
        "some tea bags",
        "herbal tea bags",
        f"{_GROCERY} › Beverages › Tea › Herbal",
        _FOOD + "; caffeine free",
        (5, 32),
        {"Flavor Name": words("Mint; Chamomile; Ginger/Lemon; Hibiscus; Earl Grey"), "Size": _PACKS},
    ),
    _kind(
        "a bookcase",
        "wooden bookcase",
        f"{_HOME} › Furniture › Home Office Furniture › Bookcases",
        _WOODWORK,
        (48, 360),
        {"Color": _WOODS, "Size": words("3 Tier; 5 Tier; 4 Tier; 6 Tier")},
    ),
)
