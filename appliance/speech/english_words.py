"""The words behind the English rules: units, currencies, abbreviations, names that count in Roman numerals."""

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# one, many, one hundredth, many of them; no hundredths where nobody says them
CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "A$": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "C$": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "US$": ("US dollar", "US dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}

UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "km/s": ("kilometer per second", "kilometers per second"),
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
    "MB/s": ("megabyte per second", "megabytes per second"),
    "GB/s": ("gigabyte per second", "gigabytes per second"),
    "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "km2": ("square kilometer", "square kilometers"),
    "m2": ("square meter", "square meters"),
    "sq ft": ("square foot", "square feet"),
    "mAh": ("milliamp hour", "milliamp hours"),
    "hPa": ("hectopascal", "hectopascals"),
    "fps": ("frame per second", "frames per second"),
    "tbsp": ("tablespoon", "tablespoons"),
    "tsp": ("teaspoon", "teaspoons"),
    "mins": ("minute", "minutes"),
    "sec": ("second", "seconds"),
    "secs": ("second", "seconds"),
    "h": ("hour", "hours"),
    "in.": ("inch", "inches"),
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
    "etc.": "et cetera",
    "e.g.,": "for example,",
    "e.g.": "for example",
    "i.e.,": "that is,",
    "i.e.": "that is",
    "approx.": "approximately",
    "a.m.": "A.M",
    "p.m.": "P.M",
    "w/": "with",
    "w/o": "without",
    "Ph.D.": "P.H.D",
    "PhD": "P.H.D",
    "a.k.a.": "A.K.A",
    "aka": "A.K.A",
    "E.g.": "For example",
    "I.e.": "That is",
    "cf.": "compare",
    "et al.": "et al",
    "Col.": "Colonel",
    "Maj.": "Major",
    "Dept.": "Department",
    "dept.": "department",
    "Mon.": "Monday",
    "Tue.": "Tuesday",
    "Tues.": "Tuesday",
    "Wed.": "Wednesday",
    "Thu.": "Thursday",
    "Thurs.": "Thursday",
    "Fri.": "Friday",
    "WWI": "World War One",
    "WWII": "World War Two",
    "WW1": "World War One",
    "WW2": "World War Two",
    "AT&T": "A.T and T",
    "km/h": "kilometers per hour",
    "C#": "C sharp",
    "F#": "F sharp",
    ".NET": "dot net",
    "Jan.": "January",
    "Feb.": "February",
    "Aug.": "August",
    "Sept.": "September",
    "Oct.": "October",
    "Nov.": "November",
    "Dec.": "December",
}

# Before a number only: elsewhere "p." and "fig." are something else.
BEFORE_NUMBERS = {
    "p.": "page",
    "pp.": "pages",
    "vol.": "volume",
    "fig.": "figure",
    "ch.": "chapter",
    "est.": "established",
    "c.": "circa",
    "ca.": "circa",
    "b.": "born",
    "d.": "died",
}

VULGAR = {
    "½": "one half", "¼": "one quarter", "¾": "three quarters", "⅓": "one third", "⅔": "two thirds",
    "⅛": "one eighth", "⅜": "three eighths", "⅝": "five eighths", "⅞": "seven eighths",
}  # fmt: skip

# The names of several of a letter: "CDs" is said "C dees".
LETTERS = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "eighs bees cees dees ease effs gees aitches eyes jays kays ells ems ens ohs peas cues ars esses tees ewes "
        "vees double-ewes exes wise zees".split(),
        strict=True,
    )
)

# What is counted behind "May 5" or "2000": then the one is no date and the other no year.
COUNTED = (
    "people|times|meters|metres|miles|feet|kilometers|dollars|euros|pounds|years|days|weeks|months|hours|minutes|"
    "seconds|calories|words|students|men|women|square|percent|points|stars|cases|copies|units|pieces"
)

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
        "GO UP MY ME AM AN AS BY IF BUT CAN GET OUT NEW BIG BAD HOT OLD DAY WAY HOW WHY ANY OFF ADD MIX TOP END SET "
        "RUN STOP"
    ).split()
)
SPELLED = frozenset(
    ("USB USA UAE AI ABS MIT EST UK US EU UN TV PC ID ATM IOU FAQ IBM IRS UFO VIP CEO API URL CIA IQ AC").split()
)

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
    "©": "copyright",
    "®": "",
    "™": "",
    "$": "dollars",
    "€": "euros",
    "£": "pounds",
    "#": "hash",
    "→": "to",
}
