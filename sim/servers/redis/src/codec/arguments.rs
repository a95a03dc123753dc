//! The arguments of one command, as slices of what the wire brought.

use std::ops::Index;

/// Where an argument lies, relative to the bytes of its command. 32 bits hold any
/// offset because query buffers are limited to less than 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u32,
    pub(super) to: u32,
}

/// The arguments of one command, its name first. Cheap to copy; borrows the
/// decoder's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    /// How many there are, the name included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none. Decoders never give an empty command.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`; 0 is the command's name.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(index)?;
        self.bytes.get(span.from as usize..span.to as usize)
    }

    /// The arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.from as usize..span.to as usize])
    }

    /// Some of the arguments; those that are not there are left out.
    pub fn part(&self, range: std::ops::Range<usize>) -> Arguments<'a> {
        Arguments { bytes: self.bytes, spans: self.spans.get(range).unwrap_or_default() }
    }

    /// The arguments from `index` on; empty past the end.
    pub fn from(&self, index: usize) -> Arguments<'a> {
        Arguments { bytes: self.bytes, spans: self.spans.get(index..).unwrap_or_default() }
    }

    /// A copy that owns its bytes.
    pub fn to_owned(&self) -> OwnedArguments {
        self.iter().collect()
    }
}

impl Index<usize> for Arguments<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        let span = self.spans[index];
        &self.bytes[span.from as usize..span.to as usize]
    }
}

/// Arguments that own their bytes: queued commands, what scripts call, rewritten
/// commands. Reusable: [`clear`](OwnedArguments::clear) keeps the memory.
#[derive(Clone, Debug, Default)]
pub struct OwnedArguments {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArguments {
    /// No arguments yet.
    pub fn new() -> Self {
        OwnedArguments::default()
    }

    /// Appends an argument. Past 4 GiB in all it is appended empty: no caller's
    /// source of arguments can grow so far.
    pub fn push(&mut self, argument: &[u8]) {
        let from = self.bytes.len();
        let span = match (u32::try_from(from), u32::try_from(from + argument.len())) {
            (Ok(from), Ok(to)) => {
                self.bytes.extend_from_slice(argument);
                Span { from, to }
            }
            _ => Span { from: 0, to: 0 },
        };
        self.spans.push(span);
    }

    /// Appends an integer as decimal text.
    pub fn push_integer(&mut self, integer: i64) {
        self.push(itoa::Buffer::new().format(integer).as_bytes());
    }

    /// Forgets the arguments, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// The arguments, borrowed.
    pub fn borrow(&self) -> Arguments<'_> {
        Arguments { bytes: &self.bytes, spans: &self.spans }
    }

    /// How many bytes of memory are in use.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<Span>()
    }
}

impl<'a> FromIterator<&'a [u8]> for OwnedArguments {
    fn from_iter<T: IntoIterator<Item = &'a [u8]>>(arguments: T) -> Self {
        let mut owned = OwnedArguments::new();
        for argument in arguments {
            owned.push(argument);
        }
        owned
    }
}
