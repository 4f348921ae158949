//! Translation of global titles, for the address mapping function of a gateway or relay (RFC 3868, sections 1.4.6 and
//! 1.5.3; ITU-T Q.714).
//!
//! A rule applies to the global titles of a kind whose digits begin with its own; among those that apply, the one with
//! the most digits counts. The result is a subsystem at a point code, or an application server.

use std::collections::BTreeMap;

use super::{
    Address, AddressIndicator, AddressSignals, GlobalTitle, NetworkAppearance, PointCode, Route,
    RoutingContext, SubsystemNumber,
};

/// Fields of a global title that its indicator transports (section 3.10.2.3); other fields are 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct TitleKind {
    indicator: u8,
    translation_type: u8,
    numbering_plan: u8,
    nature_of_address: u8,
}

impl TitleKind {
    const fn of(title: &GlobalTitle) -> Self {
        let (translation_type, numbering_plan, nature_of_address) = match title.indicator {
            1 => (0, 0, title.nature_of_address),
            2 => (title.translation_type, 0, 0),
            3 => (title.translation_type, title.numbering_plan, 0),
            _ => (
                title.translation_type,
                title.numbering_plan,
                title.nature_of_address,
            ),
        };
        Self {
            indicator: title.indicator,
            translation_type,
            numbering_plan,
            nature_of_address,
        }
    }
}

/// Result of a translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TranslationTarget {
    /// Route on SSN: a subsystem at a point code, which may be an application server or a node of the SS7 network.
    PointCode {
        /// Point code.
        point_code: PointCode,
        /// Subsystem number, that of the address if absent.
        ssn: Option<SubsystemNumber>,
    },
    /// Route on global title: an application server, which has the global title or relays it further.
    ApplicationServer {
        /// Routing context.
        routing_context: RoutingContext,
        /// Digits in place of those of the rule, so that the next relay gets a new global title.
        digits: Option<AddressSignals>,
    },
}

/// Rule for global titles that begin with the digits of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TranslationRule {
    /// Network; a rule without one applies to networks in which no other rule does.
    pub network: Option<NetworkAppearance>,
    /// Kind of the global titles, and their first digits. Without digits it applies to all titles of the kind.
    pub title: GlobalTitle,
    /// Result.
    pub target: TranslationTarget,
}

/// Rule that can't be added. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranslationTableError {
    /// The limit is reached.
    #[error("{0} rules are the limit of the translation table: raise it")]
    Full(usize),
    /// A rule for the same digits of the same kind exists.
    #[error("a rule for the same global title exists: remove it first")]
    Exists,
}

/// Reason for which a global title is not translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranslationError {
    /// No rule has this indicator, translation type, numbering plan and nature of address.
    #[error("no rule has the kind of the global title: add one")]
    Nature,
    /// No rule of the kind has digits with which the global title begins.
    #[error("no rule has the first digits of the global title: add one")]
    Address,
    /// The address is routed on the subsystem number, and neither the rule nor the address has one.
    #[error("neither the rule nor the address has a subsystem number: add it to the rule")]
    NoSubsystem,
    /// The new global title would have more than 255 digits.
    #[error("the new global title would have more than 255 digits: shorten those of the rule")]
    TooLong,
}

/// Address and application server in which a translation results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translated {
    /// New address.
    pub address: Address,
    /// Application server, if the rule names it.
    pub routing_context: Option<RoutingContext>,
}

type Rules = BTreeMap<Vec<u8>, TranslationTarget>;

/// Rules of a gateway. A translation takes as many steps as the title has digits, each by the logarithm of the rules.
#[derive(Clone, Debug)]
pub struct TranslationTable {
    limit: usize,
    length: usize,
    rules: BTreeMap<(Option<NetworkAppearance>, TitleKind), Rules>,
}

impl Default for TranslationTable {
    /// Table with room for 65,536 rules.
    fn default() -> Self {
        Self::new(65_536)
    }
}

impl TranslationTable {
    /// Table with room for a number of rules.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            length: 0,
            rules: BTreeMap::new(),
        }
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// [`TranslationTableError`]; the table is unchanged then.
    pub fn add(&mut self, rule: TranslationRule) -> Result<(), TranslationTableError> {
        let key = (rule.network, TitleKind::of(&rule.title));
        let digits = rule.title.digits.as_slice();
        let rules = self.rules.get(&key);
        if rules.is_some_and(|rules| rules.contains_key(digits)) {
            return Err(TranslationTableError::Exists);
        }
        if self.length >= self.limit {
            return Err(TranslationTableError::Full(self.limit));
        }
        let rules = self.rules.entry(key).or_default();
        rules.insert(digits.to_vec(), rule.target);
        self.length += 1;
        Ok(())
    }

    /// Removes the rule for the global titles that begin with the digits of one; returns its target.
    pub fn remove(
        &mut self,
        network: Option<NetworkAppearance>,
        title: &GlobalTitle,
    ) -> Option<TranslationTarget> {
        let key = (network, TitleKind::of(title));
        let rules = self.rules.get_mut(&key)?;
        let target = rules.remove(title.digits.as_slice())?;
        if rules.is_empty() {
            self.rules.remove(&key);
        }
        self.length -= 1;
        Some(target)
    }

    /// Returns the number of rules.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there is no rule.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the target of a title and the number of digits of its rule: that of its network, or of all.
    fn find(
        &self,
        network: Option<NetworkAppearance>,
        title: &GlobalTitle,
    ) -> Result<(usize, &TranslationTarget), TranslationError> {
        let (kind, digits) = (TitleKind::of(title), title.digits.as_slice());
        let mut error = TranslationError::Nature;
        let networks = [network, None];
        for network in &networks[..=usize::from(network.is_some())] {
            let Some(rules) = self.rules.get(&(*network, kind)) else {
                continue;
            };
            error = TranslationError::Address;
            let mut lengths = (0..=digits.len()).rev();
            let found = lengths.find_map(|length| Some((length, rules.get(&digits[..length])?)));
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(error)
    }

    /// Translates an address that is routed on its global title. Other addresses remain as they are.
    ///
    /// # Errors
    /// [`TranslationError`] if no rule applies, or its result is no address.
    pub fn translate(
        &self,
        network: Option<NetworkAppearance>,
        address: &Address,
    ) -> Result<Translated, TranslationError> {
        let Route::GlobalTitle {
            global_title,
            point_code,
            ssn,
        } = &address.route
        else {
            return Ok(Translated {
                address: address.clone(),
                routing_context: None,
            });
        };
        let (length, target) = self.find(network, global_title)?;
        match target {
            TranslationTarget::PointCode {
                point_code,
                ssn: new,
            } => {
                let ssn = new.or(*ssn).filter(|ssn| ssn.0 != 0);
                let route = Route::PointCode {
                    ssn: ssn.ok_or(TranslationError::NoSubsystem)?,
                    point_code: Some(*point_code),
                    global_title: Some(global_title.clone()),
                };
                let indicator = AddressIndicator {
                    ssn: true,
                    ..address.indicator
                };
                let address = Address { indicator, route };
                Ok(Translated {
                    address,
                    routing_context: None,
                })
            }
            TranslationTarget::ApplicationServer {
                routing_context,
                digits,
            } => {
                let mut global_title = global_title.clone();
                if let Some(digits) = digits {
                    let replaced = global_title.digits.replace_first(length, digits);
                    global_title.digits = replaced.ok_or(TranslationError::TooLong)?;
                }
                let route = Route::GlobalTitle {
                    global_title,
                    point_code: *point_code,
                    ssn: *ssn,
                };
                let address = Address {
                    indicator: address.indicator,
                    route,
                };
                Ok(Translated {
                    address,
                    routing_context: Some(*routing_context),
                })
            }
        }
    }
}
