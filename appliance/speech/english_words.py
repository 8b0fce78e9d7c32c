"""The words behind the English rules: units, currencies, abbreviations, names that count in Roman numerals."""

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# one, many, one hundredth, many of them; no hundredths where nobody says them
CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("US dollar", "US dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}

UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "m/s": ("meter per second", "meters per second"),
    "m/s²": ("meter per second squared", "meters per second squared"),
    "mph": ("mile per hour", "miles per hour"),
    "km²": ("square kilometer", "square kilometers"),
    "m²": ("square meter", "square meters"),
    "m³": ("cubic meter", "cubic meters"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "nm": ("nanometer", "nanometers"),
    "m": ("meter", "meters"),
    "mi": ("mile", "miles"),
    "ft": ("foot", "feet"),
    "yd": ("yard", "yards"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "L": ("liter", "liters"),
    "l": ("liter", "liters"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "kW": ("kilowatt", "kilowatts"),
    "MW": ("megawatt", "megawatts"),
    "W": ("watt", "watts"),
    "V": ("volt", "volts"),
    "A": ("amp", "amps"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "KB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "ms": ("millisecond", "milliseconds"),
    "min": ("minute", "minutes"),
    "hrs": ("hour", "hours"),
    "hr": ("hour", "hours"),
    "dB": ("decibel", "decibels"),
}

FRACTIONS = {2: ("half", "halves"), 4: ("quarter", "quarters")}

ABBREVIATIONS = {
    "Dr.": "Doctor",
    "Mr.": "Mister",
    "Mrs.": "Missus",
    "Ms.": "Miz",
    "Prof.": "Professor",
    "Rev.": "Reverend",
    "Gen.": "General",
    "Capt.": "Captain",
    "Lt.": "Lieutenant",
    "Sgt.": "Sergeant",
    "Gov.": "Governor",
    "Sen.": "Senator",
    "Jr.": "Junior",
    "Sr.": "Senior",
    "Mt.": "Mount",
    "Ave.": "Avenue",
    "Blvd.": "Boulevard",
    "Rd.": "Road",
    "Inc.": "Incorporated",
    "Ltd.": "Limited",
    "Co.": "Company",
    "Corp.": "Corporation",
    "vs.": "versus",
    "vs": "versus",
    "etc.": "et cetera.",
    "e.g.,": "for example,",
    "e.g.": "for example",
    "i.e.,": "that is,",
    "i.e.": "that is",
    "approx.": "approximately",
    "est.": "established",
    "a.m.": "a m",
    "p.m.": "p m",
    "B.C.": "B C",
    "A.D.": "A D",
    "w/": "with",
    "w/o": "without",
    "Jan.": "January",
    "Feb.": "February",
    "Aug.": "August",
    "Sept.": "September",
    "Oct.": "October",
    "Nov.": "November",
    "Dec.": "December",
}

NUMBERED = (
    "War", "Chapter", "Part", "Act", "Scene", "Volume", "Book", "Section", "Article", "Phase", "Type", "Class",
    "Level", "Stage", "Bowl", "Title", "Apollo", "Vatican", "Mark", "Figure", "Table", "Unit", "Episode",
)  # fmt: skip

REGNAL = (
    "Henry", "Louis", "Elizabeth", "Charles", "George", "Edward", "James", "William", "Richard", "Philip", "Francis",
    "Napoleon", "Frederick", "Catherine", "Peter", "Nicholas", "Alexander", "Ivan", "Pius", "Benedict", "Paul",
    "Gregory", "Leo", "Innocent", "Victoria", "Mary", "Ramses", "Ptolemy", "Otto", "Ferdinand", "Alfonso", "Umberto",
)  # fmt: skip

# Said as words, though some of them have no more vowels than those that are spelled.
WORD_ACRONYMS = frozenset(
    (
        "NASA NATO UNESCO UNICEF OPEC ASAP AIDS SIM PIN GIF RAM ROM LASER RADAR SWAT ASCII YOLO FIFA UEFA NAFTA OSHA "
        "FEMA SCUBA OK TED IKEA LEGO NOT AND THE YES NO ALL ONE TWO IS IT IN ON AT TO OF OR SO BE WE HE SHE YOU NOW DO "
        "GO UP MY ME AM AN AS BY IF"
    ).split()
)
SPELLED = frozenset(("USB USA UAE AI UK US EU UN TV PC ID ATM IOU FAQ IBM IRS UFO VIP CEO API URL CIA IQ AC").split())

SYMBOLS = {
    "&": "and",
    "@": "at",
    "%": "percent",
    "+": "plus",
    "=": "equals",
    "≈": "is about",
    "≠": "is not equal to",
    "≤": "is at most",
    "≥": "is at least",
    "×": "times",
    "÷": "divided by",
    "±": "plus or minus",
    "√": "the square root of",
    "π": "pi",
    "∞": "infinity",
    "°": "degrees",
    "²": "squared",
    "³": "cubed",
    "½": "one half",
    "¼": "one quarter",
    "¾": "three quarters",
    "©": "copyright",
    "®": "",
    "™": "",
    "$": "dollars",
    "€": "euros",
    "£": "pounds",
    "#": "hash",
}
