//! Values that a run learns from the packets of the stack: tags, TSNs, cookies, heartbeats and variables.
//!
//! A script chooses numbers for the tag and the initial TSN of the stack, in the INIT or INIT ACK that it expects. From
//! then on these numbers name the values that the stack has chosen.

use std::collections::{BTreeMap, BTreeSet};

use carrick_wire::{Chunk, ChunkType, Packet, Parameter, ParameterType, Parameters, RawChunk};

use crate::model::{Item, Value};
use crate::schema::FieldKind;

/// Tag and TSNs that the stack chose in an INIT or INIT ACK.
#[derive(Clone, Copy, Debug)]
struct Choice {
    script_tag: u32,
    tag: u32,
    /// Difference of a TSN of the stack to that of the script.
    tsn_offset: u32,
}

/// Cookie that the stack has sent.
#[derive(Clone, Debug)]
struct SentCookie {
    bytes: Vec<u8>,
    /// Index of the choice in the INIT ACK.
    choice: Option<usize>,
    /// Tag of the INIT that the INIT ACK answers.
    init_tag: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    choices: Vec<Choice>,
    /// Index of the choice of the association.
    current: Option<usize>,
    cookies: Vec<SentCookie>,
    heartbeat: Vec<u8>,
    /// Tag of the last INIT to the stack.
    init_tag: Option<u32>,
    /// Tag of the peer in the association.
    peer_tag: Option<u32>,
    /// Tags that the peer has given the stack in an INIT or INIT ACK.
    peer_tags: BTreeSet<u32>,
    /// Tags of the packets to the stack.
    injected_tags: BTreeSet<u32>,
    /// Port of the stack, from its first packet.
    pub(crate) port: Option<u16>,
    variables: BTreeMap<String, Value>,
}

impl Learned {
    /// Returns the TSN of the stack for that of the script.
    pub(crate) fn stack_tsn(&self, script: u32) -> u32 {
        script.wrapping_add(self.tsn_offset())
    }

    /// Returns the TSN of the script for that of the stack.
    pub(crate) fn script_tsn(&self, stack: u32) -> u32 {
        stack.wrapping_sub(self.tsn_offset())
    }

    fn tsn_offset(&self) -> u32 {
        self.current
            .map_or(0, |index| self.choices[index].tsn_offset)
    }

    /// Returns the initial TSN of the script for that of an INIT or INIT ACK of the stack with this tag.
    pub(crate) fn script_initial_tsn(&self, tag: u32, stack: u32) -> u32 {
        let choice = self.choices.iter().find(|choice| choice.tag == tag);
        stack.wrapping_sub(choice.map_or(0, |choice| choice.tsn_offset))
    }

    /// Returns the tag of the script for that of the stack.
    pub(crate) fn script_tag(&self, stack: u32) -> u32 {
        let choice = self.choices.iter().find(|choice| choice.tag == stack);
        choice.map_or(stack, |choice| choice.script_tag)
    }

    /// Returns the tag of the stack for that of the script, which is itself if it names none.
    pub(crate) fn stack_tag(&self, script: u32) -> u32 {
        let choice = self
            .choices
            .iter()
            .find(|choice| choice.script_tag == script);
        choice.map_or(script, |choice| choice.tag)
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.get(name)
    }

    pub(crate) fn set_variable(&mut self, name: &str, value: Value) {
        self.variables.insert(name.to_owned(), value);
    }

    pub(crate) fn last_cookie(&self) -> &[u8] {
        self.cookies.last().map_or(&[], |cookie| &cookie.bytes)
    }

    pub(crate) fn last_heartbeat(&self) -> &[u8] {
        &self.heartbeat
    }

    /// Tag of a packet to the stack that begins with this chunk, unless the script has one.
    pub(crate) fn tag_to_stack(&self, first: Option<&RawChunk<'_>>) -> u32 {
        let choice = match first {
            Some(chunk) if chunk.kind == ChunkType::INIT => return 0,
            Some(chunk) if chunk.kind == ChunkType::COOKIE_ECHO => {
                let sent = self.cookies.iter().rev();
                let mut sent = sent.filter(|cookie| cookie.bytes == chunk.value);
                sent.next().map_or(self.current, |cookie| cookie.choice)
            }
            _ => self.current,
        };
        choice.map_or(0, |index| self.choices[index].tag)
    }

    /// Returns whether a packet that begins with this chunk has the tag of the packet that it answers (T bit).
    pub(crate) fn is_reflected(first: &RawChunk<'_>) -> bool {
        matches!(first.kind, ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE)
            && first.flags & 1 == 1
    }

    /// Returns whether a packet of the stack that begins with this chunk may have a tag. The script may have events
    /// between the packet that it answers and the comparison.
    pub(crate) fn may_have_tag(&self, first: &RawChunk<'_>, tag: u32) -> bool {
        match first.kind {
            ChunkType::INIT => tag == 0,
            _ if Self::is_reflected(first) => self.injected_tags.contains(&tag),
            _ => self.peer_tags.contains(&tag),
        }
    }

    /// Returns the tag of packets of the stack in the association; 0, that of an INIT, if there is none.
    pub(crate) fn association_tag(&self) -> u32 {
        self.peer_tag.unwrap_or_default()
    }

    /// Learns from a packet to the stack.
    pub(crate) fn injected(&mut self, packet: &Packet<'_>) {
        self.injected_tags.insert(packet.header().tag.0);
        for raw in packet.chunks().map_while(Result::ok) {
            // A chunk with errors in its other fields has a tag, too.
            if matches!(raw.kind, ChunkType::INIT | ChunkType::INIT_ACK)
                && let Some(tag) = raw.value.first_chunk()
            {
                self.peer_tags.insert(u32::from_be_bytes(*tag));
            }
            match Chunk::parse(raw) {
                Ok(Chunk::Init(init)) => self.init_tag = Some(init.tag.0),
                Ok(Chunk::InitAck(init)) => self.peer_tag = Some(init.tag.0),
                Ok(Chunk::CookieEcho(_)) => {
                    let mut sent = self.cookies.iter().rev();
                    if let Some(cookie) = sent.find(|cookie| cookie.bytes == raw.value) {
                        self.current = cookie.choice.or(self.current);
                        self.peer_tag = cookie.init_tag.or(self.peer_tag);
                    }
                }
                _ => {}
            }
        }
    }

    /// Learns tag and TSN of an INIT or INIT ACK of the stack. `expected` is what the script has in its place.
    pub(crate) fn sent_init(&mut self, expected: Option<&Item>, raw: RawChunk<'_>) {
        let Ok(Chunk::Init(init) | Chunk::InitAck(init)) = Chunk::parse(raw) else {
            return;
        };
        let number = |kind| match expected.and_then(|item| item.of_kind(kind)) {
            Some(Value::Number(number)) => Some(*number as u32),
            _ => None,
        };
        let tag = init.tag.0;
        let script_tag = number(FieldKind::Tag).unwrap_or(tag);
        let is_known = |choice: &Choice| choice.tag == tag || choice.script_tag == script_tag;
        if self.choices.iter().any(is_known) {
            return;
        }
        let script_tsn = number(FieldKind::InitialTsn).unwrap_or(0);
        self.choices.push(Choice {
            script_tag,
            tag,
            tsn_offset: init.initial_tsn.value().wrapping_sub(script_tsn),
        });
        self.current.get_or_insert(self.choices.len() - 1);
    }

    /// Learns cookies, heartbeats and the port from a packet of the stack.
    pub(crate) fn sent(&mut self, packet: &Packet<'_>) {
        self.port.get_or_insert(packet.header().source_port);
        for raw in packet.chunks().map_while(Result::ok) {
            match Chunk::parse(raw) {
                Ok(Chunk::InitAck(init)) => {
                    let choice = self.choices.iter().position(|c| c.tag == init.tag.0);
                    let cookie = init
                        .parameters()
                        .find_map(|p| match p.map(Parameter::parse) {
                            Ok(Ok(Parameter::StateCookie(cookie))) => Some(cookie.to_vec()),
                            _ => None,
                        });
                    self.cookies.extend(cookie.map(|bytes| SentCookie {
                        bytes,
                        choice,
                        init_tag: self.init_tag,
                    }));
                }
                Ok(Chunk::Heartbeat(_)) => {
                    let mut parameters = Parameters::new(raw.value).map_while(Result::ok);
                    let info = parameters.find(|p| p.kind == ParameterType::HEARTBEAT_INFO);
                    self.heartbeat = info.map(|p| p.value.to_vec()).unwrap_or_default();
                }
                _ => {}
            }
        }
    }
}
