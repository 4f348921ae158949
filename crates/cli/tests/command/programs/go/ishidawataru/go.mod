module echo

go 1.22

require github.com/ishidawataru/sctp v0.0.0-20251114114122-19ddcbc6aae2
