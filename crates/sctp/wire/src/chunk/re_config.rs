//! Re-configuration (RE-CONFIG), RFC 6525, section 3.1.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |  type = 130   |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! /                      one or two parameters                    /
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::packet::CHUNK_HEADER_LEN;
use crate::{Parameters, RawChunk};

/// RE-CONFIG chunk. The number and the combination of parameters are not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReConfig<'a> {
    parameters: &'a [u8],
    offset: usize,
}

impl<'a> ReConfig<'a> {
    pub(crate) const fn parse(raw: RawChunk<'a>) -> Self {
        Self {
            parameters: raw.value,
            offset: raw.offset + CHUNK_HEADER_LEN,
        }
    }

    /// Requests and responses.
    pub const fn parameters(&self) -> Parameters<'a> {
        Parameters::at(self.parameters, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use crate::testing::{build, first_chunk, packet};
    use crate::{
        AddStreams, Chunk, NextTsns, Parameter, ReconfigResponse, ReconfigResult, ReconfigSerial,
        StreamId, Tsn,
    };

    /// Resets stream 5 in response to the request in the second parameter.
    const BYTES: [u8; 36] = [
        0x82, 0x00, 0x00, 0x24, // type, flags, length 36
        0x00, 0x0d, 0x00, 0x12, 0x00, 0x00, 0x00, 0x0a, // outgoing reset, length 18, number
        0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x1e, // response, last TSN
        0x00, 0x05, 0x00, 0x00, // stream, padding
        0x00, 0x10, 0x00, 0x0c, 0x00, 0x00, 0x00, 0x14, // response, length 12, number
        0x00, 0x00, 0x00, 0x01, // performed
    ];

    const RESPONSE: ReconfigResponse = ReconfigResponse {
        response: ReconfigSerial::new(20),
        result: ReconfigResult::PERFORMED,
        next_tsns: None,
    };

    #[test]
    fn parses_captured_bytes() {
        let bytes = packet(&BYTES);
        let Ok(Chunk::ReConfig(chunk)) = first_chunk(&bytes) else {
            panic!("no RE-CONFIG")
        };
        let raw: Vec<_> = chunk.parameters().map(Result::unwrap).collect();
        assert_eq!((raw[0].offset, raw[1].offset), (16, 36));
        let Ok(Parameter::OutgoingSsnReset(reset)) = Parameter::parse(raw[0]) else {
            panic!("no reset")
        };
        assert_eq!(reset.request, ReconfigSerial::new(10));
        assert_eq!(reset.response, ReconfigSerial::new(20));
        assert_eq!(reset.last_tsn, Tsn::new(30));
        assert!(reset.streams.eq([StreamId(5)]));
        let response = Parameter::ReconfigResponse(RESPONSE);
        assert_eq!(Parameter::parse(raw[1]), Ok(response));
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        let built = build(|packet| {
            packet.re_config(|p| {
                let (request, response) = (ReconfigSerial::new(10), ReconfigSerial::new(20));
                p.outgoing_ssn_reset(request, response, Tsn::new(30), &[StreamId(5)]);
                p.reconfig_response(RESPONSE);
            });
        });
        assert_eq!(built, BYTES);
    }

    #[test]
    fn builds_the_other_requests() {
        let number = ReconfigSerial::new(7);
        let built = build(|packet| {
            packet.re_config(|p| p.incoming_ssn_reset(number, &[StreamId(1), StreamId(2)]));
            packet.re_config(|p| p.ssn_tsn_reset(number));
            packet.re_config(|p| {
                let add = |count| AddStreams {
                    request: number,
                    count,
                };
                p.add_outgoing_streams(add(3));
                p.add_incoming_streams(add(4));
            });
            packet.re_config(|p| {
                let next_tsns = Some(NextTsns {
                    sender: Tsn::new(8),
                    receiver: Tsn::new(9),
                });
                p.reconfig_response(ReconfigResponse {
                    next_tsns,
                    ..RESPONSE
                });
            });
        });
        let expected = [
            &[0x82, 0, 0, 16, 0, 14, 0, 12, 0, 0, 0, 7, 0, 1, 0, 2][..],
            &[0x82, 0, 0, 12, 0, 15, 0, 8, 0, 0, 0, 7],
            &[0x82, 0, 0, 28, 0, 17, 0, 12, 0, 0, 0, 7, 0, 3, 0, 0],
            &[0, 18, 0, 12, 0, 0, 0, 7, 0, 4, 0, 0],
            &[0x82, 0, 0, 24, 0, 16, 0, 20, 0, 0, 0, 20, 0, 0, 0, 1],
            &[0, 0, 0, 8, 0, 0, 0, 9],
        ];
        assert_eq!(built, expected.concat());
    }

    #[test]
    fn no_parameter_at_all_still_parses() {
        let bytes = packet(&[0x82, 0, 0, 4]);
        let Ok(Chunk::ReConfig(chunk)) = first_chunk(&bytes) else {
            panic!("no RE-CONFIG")
        };
        assert_eq!(chunk.parameters().next(), None);
    }
}
