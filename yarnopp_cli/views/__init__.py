"""Views: how reports look as tables and as YARN's REST documents. Pure; they never read, ask or print."""
