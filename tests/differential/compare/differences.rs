//! The known differences between our decoder and `redis-protocol` 6.0, and which of them is right.
//!
//! The specification decides: the "Redis serialization protocol specification" (redis.io), cited by the name of a
//! section, and the "RESP3 specification" 1.6 (redis/redis-specifications), cited as RESP3. Both are given in our
//! words.

use super::Dialect::{self, Resp2, Resp3};

/// One difference between the two decoders.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Difference {
    LateRefusal,
    StrayLineEnd,
    PayloadEnd,
    ErrorText,
    IntegerZeros,
    IntegerMinusZero,
    LengthPlus,
    LengthZeros,
    LengthMinusZero,
    Bounds,
    Depth,
    Resp3Kind,
    OldNull,
    NullUnread,
    DoubleZeros,
    DoubleIntegral,
    DoubleFraction,
    DoubleWords,
    DoubleOverflow,
    BigNumberUnread,
    VerbatimShort,
    VerbatimColon,
    VerbatimFormat,
    Chunk,
    Hello,
    PushInside,
    PushKind,
    AggregateKey,
    Repeated,
    AttributeOfNull,
    AttributeTwice,
}

/// A set of differences.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Differences(u64);

impl Differences {
    /// No difference: reads like our decoder.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn only(difference: Difference) -> Self {
        Self(1 << difference as u32)
    }

    /// Returns all differences of the other decoder of this dialect.
    pub(crate) fn of(dialect: Dialect) -> Self {
        let known = KNOWN.iter().filter(|known| known.of.contains(&dialect));
        Self(known.fold(0, |set, known| set | Self::only(known.difference).0))
    }

    pub(crate) const fn without(self, difference: Difference) -> Self {
        Self(self.0 & !Self::only(difference).0)
    }

    pub(crate) const fn contains(self, difference: Difference) -> bool {
        self.0 & Self::only(difference).0 != 0
    }
}

/// The verdict of the specification.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Right {
    Ours,
    Theirs,
    /// The specification leaves it open.
    Both,
}

/// A difference and the verdict on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) difference: Difference,
    /// The other decoders that have this difference.
    pub(crate) of: &'static [Dialect],
    pub(crate) right: Right,
    /// The text of the specification behind the verdict.
    pub(crate) because: &'static str,
    /// A few bytes that show this difference and no other.
    pub(crate) example: &'static [u8],
    /// The answer of our decoder to these bytes.
    pub(crate) ours: &'static str,
    /// The answer of the other decoder.
    pub(crate) theirs: &'static str,
}

/// All known differences, in the order of the enumeration.
pub(crate) const KNOWN: [Known; 31] = [
    Known {
        difference: Difference::LateRefusal,
        of: &[Resp2, Resp3],
        right: Right::Both,
        because: "Nothing is said about when a reader has to notice. Theirs looks at a line when \
            its end has arrived, ours also when it is longer than it may be, or has a CR or an LF.",
        example: b":1\n",
        ours: "refused",
        theirs: "more",
    },
    Known {
        difference: Difference::StrayLineEnd,
        of: &[Resp2, Resp3],
        right: Right::Ours,
        because: "Simple strings: neither a CR nor an LF may be in it.",
        example: b"+a\nb\r\n",
        ours: "refused",
        theirs: "+\"a\\nb\" in 6",
    },
    Known {
        difference: Difference::PayloadEnd,
        of: &[Resp2, Resp3],
        right: Right::Ours,
        because: "Bulk strings: behind the data comes a final CR LF. Theirs skips two bytes, \
            whatever they are, and with them the sign that the two sides have lost each other.",
        example: b"$1\r\na:1",
        ours: "refused",
        theirs: "$\"a\" in 7",
    },
    Known {
        difference: Difference::ErrorText,
        of: &[Resp2, Resp3],
        right: Right::Ours,
        because: "Simple errors: like simple strings, from which only CR and LF are kept out. \
            Servers put arguments of the client into them, which may be any bytes.",
        example: b"-\xff\r\n",
        ours: "-\"\\xff\" in 4",
        theirs: "refused",
    },
    Known {
        difference: Difference::IntegerZeros,
        of: &[Resp2, Resp3],
        right: Right::Theirs,
        because: "Integers: one digit or more, of which none is kept from being a zero. No server \
            writes one in front, and the servers' own reader refuses it.",
        example: b":007\r\n",
        ours: "refused",
        theirs: ":7 in 6",
    },
    Known {
        difference: Difference::IntegerMinusZero,
        of: &[Resp2, Resp3],
        right: Right::Theirs,
        because: "Integers: any digits may follow a minus sign. No server writes this, and the \
            servers' own reader refuses it.",
        example: b":-0\r\n",
        ours: "refused",
        theirs: ":0 in 5",
    },
    Known {
        difference: Difference::LengthPlus,
        of: &[Resp2, Resp3],
        right: Right::Ours,
        because: "Bulk strings, arrays: a length is digits, without a sign.",
        example: b"$+1\r\na\r\n",
        ours: "refused",
        theirs: "$\"a\" in 8",
    },
    Known {
        difference: Difference::LengthZeros,
        of: &[Resp2, Resp3],
        right: Right::Theirs,
        because: "Bulk strings, arrays: one digit or more. Ours wants one spelling only of what \
            says where a reply ends, and it is the only one that servers write.",
        example: b"$01\r\na\r\n",
        ours: "refused",
        theirs: "$\"a\" in 8",
    },
    Known {
        difference: Difference::LengthMinusZero,
        of: &[Resp2, Resp3],
        right: Right::Ours,
        because: "Bulk strings, arrays: a length has no sign; the one exception is -1, the null.",
        example: b"$-0\r\n\r\n",
        ours: "refused",
        theirs: "$\"\" in 7",
    },
    Known {
        difference: Difference::Bounds,
        of: &[Resp2, Resp3],
        right: Right::Both,
        because: "Bulk strings may have any size, and aggregates any number of elements; what a \
            reader is willing to hold is its own affair. Theirs holds what it is sent.",
        example: b"*65537\r\n",
        ours: "refused",
        theirs: "more",
    },
    Known {
        difference: Difference::Depth,
        of: &[Resp2, Resp3],
        right: Right::Both,
        because: "Arrays: all aggregates can be nested, to no given depth. Theirs has no bound \
            but the stack of its thread.",
        example: b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n\
            *1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n\
            *1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n",
        ours: "refused",
        theirs: "*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[\
            ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]] in 132",
    },
    Known {
        difference: Difference::Resp3Kind,
        of: &[Resp2],
        right: Right::Both,
        because: "The table of types names for each the least version. Ours is not told which one \
            was agreed on, and RESP3 contains RESP2.",
        example: b"#t\r\n",
        ours: "#t in 4",
        theirs: "refused",
    },
    Known {
        difference: Difference::OldNull,
        of: &[Resp3],
        right: Right::Ours,
        because: "RESP versions: RESP3 is a superset of RESP2, of which this is the null. Theirs \
            takes -1 for the sign of something streamed.",
        example: b"$-1\r\n",
        ours: "_ in 5",
        theirs: "refused",
    },
    Known {
        difference: Difference::NullUnread,
        of: &[Resp3],
        right: Right::Ours,
        because: "Nulls: the underscore and CR LF, with nothing between them.",
        example: b"_x\r\n",
        ours: "refused",
        theirs: "_ in 4",
    },
    Known {
        difference: Difference::DoubleZeros,
        of: &[Resp3],
        right: Right::Theirs,
        because: "Doubles: the integral part is one digit or more. No server writes a zero in \
            front of others.",
        example: b",01.5\r\n",
        ours: "refused",
        theirs: ",1.5 in 7",
    },
    Known {
        difference: Difference::DoubleIntegral,
        of: &[Resp3],
        right: Right::Ours,
        because: "Doubles: one digit or more before the point. RESP3 adds that to begin with the \
            point is invalid.",
        example: b",.5\r\n",
        ours: "refused",
        theirs: ",0.5 in 5",
    },
    Known {
        difference: Difference::DoubleFraction,
        of: &[Resp3],
        right: Right::Ours,
        because: "Doubles: a point is followed by one digit or more.",
        example: b",5.\r\n",
        ours: "refused",
        theirs: ",5.0 in 5",
    },
    Known {
        difference: Difference::DoubleWords,
        of: &[Resp3],
        right: Right::Ours,
        because: "Doubles: the words are inf, -inf and nan. For servers before 7.2 RESP3 asks \
            readers to cope with other names of NaN as well; of these ours takes -nan, the only \
            one that such a server was seen to send.",
        example: b",infinity\r\n",
        ours: "refused",
        theirs: ",inf in 11",
    },
    Known {
        difference: Difference::DoubleOverflow,
        of: &[Resp3],
        right: Right::Both,
        because: "Doubles: the grammar bounds no exponent, but what it spells is a double, which \
            this is not. Theirs rounds it to infinity, which has a word of its own.",
        example: b",1e400\r\n",
        ours: "refused",
        theirs: ",inf in 8",
    },
    Known {
        difference: Difference::BigNumberUnread,
        of: &[Resp3],
        right: Right::Ours,
        because: "Big numbers: one digit or more, and nothing else behind the sign.",
        example: b"(12x\r\n",
        ours: "refused",
        theirs: "(\"12x\" in 6",
    },
    Known {
        difference: Difference::VerbatimShort,
        of: &[Resp3],
        right: Right::Ours,
        because: "Verbatim strings: the length counts three bytes and a colon. Theirs refuses as \
            well, but only when four more bytes have arrived.",
        example: b"=3\r\n",
        ours: "refused",
        theirs: "more",
    },
    Known {
        difference: Difference::VerbatimColon,
        of: &[Resp3],
        right: Right::Ours,
        because: "Verbatim strings: a colon stands between the encoding and the data.",
        example: b"=5\r\ntxt;a\r\n",
        ours: "refused",
        theirs: "=txt\"a\" in 11",
    },
    Known {
        difference: Difference::VerbatimFormat,
        of: &[Resp3],
        right: Right::Ours,
        because: "Verbatim strings: exactly three bytes say what the encoding is. RESP3 names txt \
            and mkd, but does not close the list.",
        example: b"=5\r\nxml:a\r\n",
        ours: "=xml\"a\" in 11",
        theirs: "refused",
    },
    Known {
        difference: Difference::Chunk,
        of: &[Resp3],
        right: Right::Ours,
        because: "RESP3, streamed strings: chunks and the end are parts of what began with a \
            question mark. Theirs leaves it to its caller to put them together.",
        example: b";1\r\na\r\n",
        ours: "refused",
        theirs: ";\"a\" in 7",
    },
    Known {
        difference: Difference::Hello,
        of: &[Resp3],
        right: Right::Ours,
        because: "RESP3, the HELLO command: what a server answers is a map. The line is what a \
            client sends.",
        example: b"HELLO 3\r\n",
        ours: "refused",
        theirs: "H\"3\" in 9",
    },
    Known {
        difference: Difference::PushInside,
        of: &[Resp3],
        right: Right::Ours,
        because: "RESP3, push type: always at the top level, never in the middle of a reply.",
        example: b"*1\r\n>1\r\n+a\r\n",
        ours: "refused",
        theirs: "*[>[+\"a\"]] in 12",
    },
    Known {
        difference: Difference::PushKind,
        of: &[Resp3],
        right: Right::Ours,
        because: "RESP3, push type: the first element is always a string, the kind of the push.",
        example: b">1\r\n:1\r\n",
        ours: "refused",
        theirs: ">[:1] in 8",
    },
    Known {
        difference: Difference::AggregateKey,
        of: &[Resp3],
        right: Right::Ours,
        because: "Maps: keys and values can be of any type. RESP3: so can elements of sets.",
        example: b"%1\r\n*0\r\n+a\r\n",
        ours: "%[*[]=+\"a\"] in 12",
        theirs: "refused",
    },
    Known {
        difference: Difference::Repeated,
        of: &[Resp3],
        right: Right::Both,
        because: "RESP3, set reply: a reader may drop repeated elements, and one that returns what \
            it read may pass them on. Of equal keys theirs keeps the first value.",
        example: b"%2\r\n:1\r\n+a\r\n:1\r\n+b\r\n",
        ours: "%[:1=+\"a\" :1=+\"b\"] in 20",
        theirs: "%[:1=+\"a\"] in 20",
    },
    Known {
        difference: Difference::AttributeOfNull,
        of: &[Resp3],
        right: Right::Ours,
        because: "RESP3, attribute type: attributes can stand before any type.",
        example: b"|0\r\n_\r\n",
        ours: "_ in 7",
        theirs: "refused",
    },
    Known {
        difference: Difference::AttributeTwice,
        of: &[Resp3],
        right: Right::Ours,
        because: "RESP3, attribute type: attributes can stand before any type, of which they are \
            one; a reader that meets them reads on.",
        example: b"|0\r\n|0\r\n:1\r\n",
        ours: ":1 in 12",
        theirs: "refused",
    },
];
