"""Views: reports as tables and as YARN's REST documents. Pure; they never read files, make calls or print."""
