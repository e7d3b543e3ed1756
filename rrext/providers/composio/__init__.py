"""Tools of Composio: actions on the accounts of users at other services, over its REST API."""
