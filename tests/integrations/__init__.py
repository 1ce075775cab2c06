"""Tests against the real libraries; run them with `make integrations`."""
