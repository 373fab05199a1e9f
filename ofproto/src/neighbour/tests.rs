use proptest::prelude::*;

use super::*;

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([1, 1, 2, last])
}

fn mac(last: u8) -> EthernetAddress {
    EthernetAddress([0xf8, 0xbc, 0x12, 0x44, 0x34, last])
}

#[test]
fn a_neighbour_is_asked_for_once_a_second() {
    let mut neighbours = Neighbours::default();
    assert_eq!(neighbours.lookup("br0", ip(1), at(0)), Known::Nothing);
    assert!(neighbours.ask("br0", ip(1), at(0)));
    assert_eq!(neighbours.lookup("br0", ip(1), at(999)), Known::Asked);
    assert_eq!(neighbours.lookup("br1", ip(1), at(999)), Known::Nothing);
    assert_eq!(neighbours.next_expiry(), Some(at(1000)));
    assert!(!neighbours.expire(at(999)));
    assert_eq!(neighbours.lookup("br0", ip(1), at(1000)), Known::Nothing);
    assert!(neighbours.ask("br0", ip(1), at(1000)));
    assert!(neighbours.set("br0", ip(1), mac(1), at(1500)));
    assert!(!neighbours.set("br0", ip(1), mac(1), at(1500)));
    assert!(neighbours.set("br0", ip(1), mac(2), at(1500)));
    assert_eq!(neighbours.lookup("br0", ip(1), at(2500)), Known::Address(mac(2)));
    neighbours.set_retransmission(Duration::ZERO, at(2500)).unwrap();
    assert!(!neighbours.ask("br0", ip(2), at(2500)));
}

#[test]
fn shows_all_in_columns() {
    let mut neighbours = Neighbours::default();
    neighbours.set("br0", ip(92), mac(0xb6), at(0));
    neighbours.ask("br0", ip(93), at(0));
    assert_eq!(
        neighbours.show(at(1000)),
        "IP                                            MAC                 Bridge\n\
         ==========================================================================\n\
         1.1.2.92                                      f8:bc:12:44:34:b6   br0\n\
         1.1.2.93                                                          br0 INCOMPLETE STALE\n"
    );
    assert!(neighbours.flush_bridge("br0"));
    assert!(!neighbours.flush());
}

#[test]
fn times_are_bounded_by_each_other() {
    let mut neighbours = Neighbours::default();
    let seconds = Duration::from_secs;
    assert_eq!(neighbours.aging(), seconds(900));
    assert_eq!(neighbours.set_aging(seconds(0), at(0)), Err(BadTime::Aging));
    assert_eq!(neighbours.set_aging(seconds(3601), at(0)), Err(BadTime::Aging));
    neighbours.set("br0", ip(1), mac(1), at(0));
    neighbours.set_aging(seconds(1), at(0)).unwrap();
    assert_eq!(neighbours.next_expiry(), Some(at(1000)));
    let too_long = neighbours.set_retransmission(seconds(2), at(0));
    assert_eq!(too_long, Err(BadTime::RetransmissionTooLong));
    neighbours.set_aging(seconds(10), at(0)).unwrap();
    neighbours.set_retransmission(seconds(5), at(0)).unwrap();
    assert_eq!(neighbours.set_aging(seconds(4), at(0)), Err(BadTime::AgingTooShort));
    assert_eq!((neighbours.aging(), neighbours.retransmission()), (seconds(10), seconds(5)));
}

/// Something that happens to the entry of one of few neighbours.
#[derive(Clone, Copy, Debug)]
enum Step {
    Look(u8),
    Set(u8),
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![(0u8..3).prop_map(Step::Look), (0u8..3).prop_map(Step::Set), Just(Step::Expire)]
}

proptest! {
    /// The oracle remembers when each was last used and whether it answered.
    #[test]
    fn entries_age_as_they_are_used(
        steps in proptest::collection::vec((step(), 0u64..5000), 1..60),
    ) {
        let mut neighbours = Neighbours::default();
        neighbours.set_aging(at(4000), at(0)).unwrap();
        let mut oracle: [Option<(bool, u64)>; 3] = [None; 3];
        let mut now = 0;
        for (step, pause) in steps {
            now += pause;
            // An unanswered request counts for a second, an answer for four.
            let lives = |(answered, since): (bool, u64)| {
                now < since + if answered { 4000 } else { 1000 }
            };
            match step {
                Step::Look(who) => {
                    let slot = &mut oracle[usize::from(who)];
                    let expected = match slot.filter(|entry| lives(*entry)) {
                        Some((true, _)) => Known::Address(mac(who)),
                        Some((false, _)) => Known::Asked,
                        None => Known::Nothing,
                    };
                    prop_assert_eq!(neighbours.lookup("br0", ip(who), at(now)), expected);
                    match expected {
                        Known::Address(_) => *slot = Some((true, now)),
                        Known::Asked => {}
                        Known::Nothing => {
                            neighbours.ask("br0", ip(who), at(now));
                            *slot = Some((false, now));
                        }
                    }
                }
                Step::Set(who) => {
                    let slot = &mut oracle[usize::from(who)];
                    let is_news = !slot.is_some_and(|entry| entry.0 && lives(entry));
                    prop_assert_eq!(neighbours.set("br0", ip(who), mac(who), at(now)), is_news);
                    *slot = Some((true, now));
                }
                Step::Expire => {
                    let gone = oracle.iter().flatten().any(|entry| !lives(*entry));
                    prop_assert_eq!(neighbours.expire(at(now)), gone);
                    oracle.iter_mut().for_each(|slot| *slot = slot.filter(|entry| lives(*entry)));
                }
            }
        }
    }
}
