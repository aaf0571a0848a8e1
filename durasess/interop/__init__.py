"""Importers and exporters: sessions as other programs and people read them, and back."""
