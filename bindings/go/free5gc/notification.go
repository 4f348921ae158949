//go:build linux

package sctp

import carrick "github.com/carrick-sctp/carrick/bindings/go"

// Notification is a notification of SCTPRead.
type Notification interface {
	// Type returns the type of the notification.
	Type() SCTPNotificationType
	// Flags returns its flags.
	Flags() uint16
	// Length returns its size in bytes.
	Length() uint32
}

// header has the fields that all notifications have.
type header struct {
	kind   SCTPNotificationType
	length uint32
	assoc  SCTPAssocID
}

// Type returns the type of the notification.
func (h *header) Type() SCTPNotificationType { return h.kind }

// Flags returns the flags of the notification, which has none.
func (h *header) Flags() uint16 { return 0 }

// Length returns the size of the notification in bytes.
func (h *header) Length() uint32 { return h.length }

// AssocID returns the association.
func (h *header) AssocID() SCTPAssocID { return h.assoc }

// SCTPAssocChangeEvent notifies of an association that was set up, restarted or has ended.
type SCTPAssocChangeEvent struct {
	header
	change *carrick.AssocChange
}

// State returns the state of the association.
func (s *SCTPAssocChangeEvent) State() SCTPState { return SCTPState(s.change.State) }

// OutboundStreams returns the number of outbound streams.
func (s *SCTPAssocChangeEvent) OutboundStreams() uint16 { return s.change.OutboundStreams }

// InboundStreams returns the number of inbound streams.
func (s *SCTPAssocChangeEvent) InboundStreams() uint16 { return s.change.InboundStreams }

// Info returns the information of the notification.
func (s *SCTPAssocChangeEvent) Info() []uint8 { return s.change.Info }

// SCTPShutdownEvent notifies of a SHUTDOWN of the peer.
type SCTPShutdownEvent struct{ header }

// parse returns the notification of its bytes; nil for other types than the two above.
func parse(b []byte) Notification {
	parsed, err := carrick.ParseNotification(b)
	if err != nil {
		return nil
	}
	fields := header{SCTPNotificationType(parsed.Type()), uint32(len(b)), SCTPAssocID(parsed.Assoc())}
	switch parsed := parsed.(type) {
	case *carrick.AssocChange:
		return &SCTPAssocChangeEvent{fields, parsed}
	case *carrick.ShutdownEvent:
		return &SCTPShutdownEvent{fields}
	}
	return nil
}
