"""Rules about service settings: sections that OpenPAI merges over its defaults without looking at them.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
"""
